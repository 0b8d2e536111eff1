// What scrolls in a box of its own can be reached by the Tab key, and then scrolled by the arrow keys.
const reach = () => {
  for (const box of document.querySelectorAll(".bd-article :is(table, pre, mjx-container, .cell_output, .cell_output div)")) {
    const look = getComputedStyle(box);
    const wide = box.scrollWidth > box.clientWidth && look.overflowX !== "visible";
    const high = box.scrollHeight > box.clientHeight && look.overflowY !== "visible";
    if (wide || high) box.tabIndex = 0;
  }
};
addEventListener("load", reach);
addEventListener("resize", reach);
