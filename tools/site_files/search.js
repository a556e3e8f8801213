// Finds headings by their words. The index is a script, because pages read from a disk may fetch nothing.
const search = document.querySelector("search");
const input = search.querySelector("input");
const list = search.querySelector("ul");
const MOST = 20;

function entry([heading, title, address]) {
  const item = document.createElement("li");
  const link = document.createElement("a");
  link.href = `${document.body.dataset.top}/${address}`;
  link.textContent = heading;
  if (title !== heading) {
    const page = document.createElement("small");
    page.textContent = title;
    link.append(page);
  }
  item.append(link);
  return item;
}

function find(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const holds = ([heading, title]) => words.every((word) => `${heading} ${title}`.toLowerCase().includes(word));
  const strays = ([heading]) => words.filter((word) => !heading.toLowerCase().includes(word)).length;
  return words.length ? INDEX.filter(holds).sort((one, other) => strays(one) - strays(other)).slice(0, MOST) : [];
}

input.addEventListener("input", () => list.replaceChildren(...find(input.value).map(entry)));
search.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { input.value = ""; list.replaceChildren(); }
});
search.hidden = false;
