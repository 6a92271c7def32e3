// The keyboard: ⌘K or Ctrl+K finds anything, single keys move about (they can be switched off in the profile).

let shown = null;
// What is typed while the palette is on its way; null: none is.
let typed = null;

// Whether what is found is not yet that of the words that are written, and whether Enter waits for it.
let stale = false;
let entered = false;

async function palette() {
  if (typed !== null) return;
  let already = "";
  if (!shown) {
    typed = "";
    try {
      await load();
    } finally {
      already = typed;
      typed = null;
    }
  }
  shown.showModal();
  const input = shown.querySelector("input");
  input.select();
  if (!already) return;
  input.value = already;
  input.dispatchEvent(new Event("input", { bubbles: true }));
}

async function load() {
  const answer = await fetch("/find", { headers: { "HX-Request": "true" } });
  const holder = document.createElement("div");
  // The server's own markup, escaped there.
  holder.append(document.createRange().createContextualFragment(await answer.text()));
  shown = holder.querySelector("dialog");
  document.body.append(shown);
  window.htmx?.process(shown);
  shown.addEventListener("keydown", moveInPalette);
  shown.addEventListener("input", () => {
    stale = true;
    entered = false;
  });
  new MutationObserver(() => {
    stale = false;
    if (entered) shown.querySelector("li a")?.click();
    entered = false;
  }).observe(shown.querySelector("#palette-found"), { childList: true });
}

function moveInPalette(event) {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp" && event.key !== "Enter") return;
  const links = [...shown.querySelectorAll("li a")];
  const at = links.indexOf(document.activeElement);
  if (event.key === "Enter") {
    if (at >= 0 || !(stale || links.length)) return;
    // Rather than send the form, which leads to a page of what is found.
    event.preventDefault();
    if (stale) entered = true;
    else links[0].click();
    return;
  }
  event.preventDefault();
  const next = at + (event.key === "ArrowDown" ? 1 : -1);
  (links[next] ?? shown.querySelector("input")).focus();
}

function moveInList(step) {
  const rows = [...document.querySelectorAll("main .list > li a.title")];
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement);
  rows[Math.max(0, Math.min(rows.length - 1, at + step))].focus();
}

export function keys() {
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-palette]")) return;
    event.preventDefault();
    palette();
  });
  document.addEventListener("keydown", (event) => {
    if (typed !== null && !event.metaKey && !event.ctrlKey && !event.altKey) {
      event.preventDefault();
      if (event.key === "Backspace") typed = typed.slice(0, -1);
      else if ([...event.key].length === 1) typed += event.key;
      return;
    }
    if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      palette();
      return;
    }
    // The focus stays in a dialog that was just closed until the next frame.
    const field = event.target.closest("input, textarea, select, [contenteditable]");
    const typing = field && !field.closest("dialog:not([open])");
    const off = document.documentElement.dataset.keys === "off";
    if (typing || off || event.metaKey || event.ctrlKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.key === "/") {
      event.preventDefault();
      const search = document.querySelector("main input[type=search], nav input[type=search]");
      if (search) search.focus();
      else palette();
    } else if (event.key === "j") moveInList(1);
    else if (event.key === "k") moveInList(-1);
    else if (event.key === "?") window.location.assign("/keys");
  });
}
