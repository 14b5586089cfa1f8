"use strict";
// Without this script the page shows the same: it adds sorting and the filter.
const number = (text) => {
  const found = /-?[0-9][0-9.]*(e-?[0-9]+)?/.exec(text.replace(/,/g, ""));
  return found ? Number(found[0]) : NaN;
};
const compare = (a, b, numeric) => {
  if (!numeric) return a.localeCompare(b, undefined, { numeric: true });
  const [x, y] = [number(a), number(b)];
  if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
  return x - y;
};
for (const table of document.querySelectorAll("table")) {
  const headings = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  if (body.rows.length < 2) continue;
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const falls = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", falls ? "descending" : "ascending");
      const numeric = heading.classList.contains("n");
      const text = (row) => row.cells[column].textContent;
      const missing = (row) => numeric && Number.isNaN(number(text(row)));
      const rows = [...body.rows];
      rows.sort((a, b) => {
        if (missing(a) || missing(b)) return missing(a) - missing(b);
        return (falls ? -1 : 1) * compare(text(a), text(b), numeric);
      });
      body.append(...rows);
    });
  });
}
const filter = document.getElementById("filter");
if (filter) {
  filter.parentElement.hidden = false;
  filter.addEventListener("input", () => {
    const wanted = filter.value.toLowerCase();
    for (const row of document.querySelectorAll("tbody tr")) {
      row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
    }
    for (const figure of document.querySelectorAll("figure")) {
      figure.hidden = !figure.textContent.toLowerCase().includes(wanted);
    }
  });
}
