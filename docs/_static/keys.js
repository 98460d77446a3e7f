// Whoever has no mouse scrolls what is too wide by the arrow keys: so it must be able to have the focus.
const BOXES = "pre, .table-wrapper, .math-wrapper, div.math, dt.sig";

function mark() {
  for (const box of document.querySelectorAll(BOXES)) {
    const wide = box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight;
    if (wide && getComputedStyle(box).overflowX !== "visible") box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

// Captions of the contents are headings without a level.
for (const caption of document.querySelectorAll("[role=heading]:not([aria-level])"))
  caption.ariaLevel = 2;
// References are entries of a bibliography, which are no items of a list.
for (const list of document.querySelectorAll(".citation-list[role=list]")) list.role = null;
// Arguments that have a line each are no definitions of terms.
for (const part of document.querySelectorAll("dt.sig dl, dt.sig dl > dd")) part.role = "none";
// A figure leads to itself alone, where it can be enlarged: on a phone its text is small.
for (const image of document.querySelectorAll("article img:not(.toggler)")) {
  if (image.closest("a")) continue;
  const link = document.createElement("a");
  link.href = image.src;
  link.className = "enlarge";
  image.replaceWith(link);
  link.append(image);
}
mark();
addEventListener("load", mark);
addEventListener("resize", mark);
