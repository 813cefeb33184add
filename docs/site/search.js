// Search in all pages, without a server: the parts of the pages are a script, which is
// loaded when somebody begins to search.
const field = document.getElementById("search");
const results = document.getElementById("results");
const up = document.currentScript.getAttribute("src").replace("search.js", "");

function loaded() {
  if (!loaded.once) {
    loaded.once = new Promise((done) => {
      const script = document.createElement("script");
      script.src = up + "sections.js";
      script.onload = done;
      document.head.append(script);
    });
  }
  return loaded.once;
}

// rank is how well a part fits all words; 0: it does not.
function rank(part, words) {
  const title = (part.Title + " " + part.Page).toLowerCase();
  const text = part.Text.toLowerCase();
  let sum = 0;
  for (const word of words) {
    const n = (title.includes(word) ? 10 : 0) + Math.min(text.split(word).length - 1, 5);
    if (n === 0) return 0;
    sum += n;
  }
  return sum;
}

async function find() {
  await loaded();
  const words = field.value.toLowerCase().split(/\s+/).filter((word) => word.length > 1);
  const found = words.length === 0 ? [] : sections
    .map((part) => ({ part, rank: rank(part, words) }))
    .filter((one) => one.rank > 0)
    .sort((a, b) => b.rank - a.rank)
    .slice(0, 12);
  results.replaceChildren(...found.map(({ part }) => {
    const link = document.createElement("a");
    link.href = up + part.Address;
    link.textContent = part.Title === part.Page ? part.Page : part.Page + ": " + part.Title;
    const at = Math.max(0, part.Text.toLowerCase().indexOf(words[0]) - 40);
    const said = document.createElement("small");
    said.textContent = part.Text.slice(at, at + 120);
    const item = document.createElement("li");
    item.append(link, said);
    return item;
  }));
  if (words.length > 0 && found.length === 0) results.textContent = "Nothing has all these words.";
}

field.hidden = false;
field.addEventListener("input", find);

// Code may be wrapped where nothing but comments is set in columns.
for (const pre of document.querySelectorAll("pre")) {
  pre.classList.toggle("wrap", !/\S {2,}[^\s#]|[│─▶]/.test(pre.textContent));
}
