// What somebody wrote in a form that was not taken (they were signed out meanwhile, somebody else was faster): it is
// shown on the page that says so, and stands in its form again when they come back to it. It stays in this tab.
const KEY = "unsent";
const REFUSED = "holdfast_refused";

// What is no prose, such as a snippet or a value, may hold a credential and is not kept.
function prose(form) {
  const fields = [...form.querySelectorAll("textarea, input:not([type]), input[type=text]")];
  return fields.filter((field) => field.name && field.value !== field.defaultValue && field.spellcheck && field.autocomplete !== "off");
}

function keep(event) {
  const form = event.target;
  if (event.defaultPrevented || form.method !== "post") return;
  const fields = prose(form).map((field) => [field.name, field.value]);
  const draft = { url: location.pathname + location.search, action: form.getAttribute("action"), fields };
  try {
    sessionStorage.setItem(KEY, JSON.stringify(draft));
  } catch {
    // More than a tab may keep: it is sent all the same.
    sessionStorage.removeItem(KEY);
  }
}

function restore(draft) {
  const forms = [...document.querySelectorAll("form[method=post]")];
  const form = forms.find((each) => each.getAttribute("action") === draft.action);
  const found = draft.fields.map(([name, value]) => [form?.querySelector(`[name="${CSS.escape(name)}"]`), value]);
  if (!found.every(([field]) => field)) return false;
  for (const [field, value] of found) field.value = value;
  form.closest("dialog")?.showModal();
  form.closest("details")?.setAttribute("open", "");
  return true;
}

function tell(draft) {
  const line = document.getElementById("unsent");
  line.querySelector("a").href = draft.url;
  line.querySelector("pre").textContent = draft.fields.map(([, value]) => value).join("\n\n");
  line.hidden = false;
}

export function unsent() {
  const draft = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
  const refused = document.cookie.split("; ").includes(`${REFUSED}=1`);
  document.addEventListener("submit", keep);
  if (draft?.fields.length && refused && !(draft.url === location.pathname + location.search && restore(draft))) {
    tell(draft);
    return;
  }
  sessionStorage.removeItem(KEY);
  if (refused) document.cookie = `${REFUSED}=; Path=/; Max-Age=0; SameSite=Lax`;
}
