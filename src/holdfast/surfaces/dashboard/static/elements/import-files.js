// A place to drop files that are to be imported: each is sent as it is, with its progress, and its report is shown.
import { csrf, sent } from "../app.js";

// What the server calls a file that is no archive; its own name does not reach it.
const ALONE = ["import.jsonl", "import.md"];

class ImportFiles extends HTMLElement {
  connectedCallback() {
    this.report = this.querySelector(".report");
    const input = this.querySelector("input");
    input.addEventListener("change", () => {
      const chosen = [...input.files];
      input.value = "";
      this.take(chosen);
    });
    this.addEventListener("dragover", (event) => event.preventDefault());
    this.addEventListener("drop", (event) => {
      event.preventDefault();
      this.take([...event.dataTransfer.files]);
    });
  }

  async take(files) {
    if (files.length) this.report.replaceChildren();
    // One after another: what the second repeats of the first is known by then.
    for (const file of files) await this.send(file);
  }

  async send(file) {
    const bar = document.createElement("progress");
    bar.max = 1;
    bar.value = 0;
    bar.setAttribute("aria-label", file.name);
    this.report.append(bar);
    const answer = await sent(this.getAttribute("action"), file, (share) => (bar.value = share), {
      "X-CSRF-Token": csrf(),
      "Content-Type": "application/octet-stream",
    });
    bar.replaceWith(...(answer.ok ? this.told(file, answer.body) : [this.refused(file, answer.reason)]));
  }

  told(file, found) {
    const created = Object.entries(found.created);
    const made = created.reduce((sum, [, number]) => sum + number, 0);
    const types = created.map(([type, number]) => `${this.dataset[type] ?? type} ${number}`).join(", ");
    const line = text(
      "p",
      `${file.name}: ${made} ${this.dataset.created}${types ? ` (${types})` : ""}, ${found.updated} ` +
        `${this.dataset.updated}, ${found.unchanged} ${this.dataset.unchanged}`,
    );
    const taken = made + found.updated + found.unchanged;
    line.className = found.problems.length && !taken ? "alert" : "notice";
    if (!found.problems.length) return [line];
    const list = document.createElement("ul");
    for (const each of found.problems.slice(0, 50)) list.append(text("li", `${ALONE.includes(each.file) ? file.name : each.file}: ${each.reason}`));
    return [line, text("p", `${this.dataset.problems} ${found.problems.length + found.more_problems}`), list];
  }

  refused(file, reason) {
    const line = text("p", `${file.name} ${this.dataset.failed}: ${reason}`);
    line.className = "alert";
    line.setAttribute("role", "alert");
    return line;
  }
}

function text(tag, words) {
  const made = document.createElement(tag);
  made.textContent = words;
  return made;
}

customElements.define("import-files", ImportFiles);
