// A place to drop a file that is to be imported: it is sent as it is, with its progress, and the report is shown.
import { csrf, sent } from "../app.js";

class ImportFiles extends HTMLElement {
  connectedCallback() {
    this.report = this.querySelector(".report");
    const input = this.querySelector("input");
    input.addEventListener("change", () => {
      if (input.files.length) this.send(input.files[0]);
      input.value = "";
    });
    this.addEventListener("dragover", (event) => event.preventDefault());
    this.addEventListener("drop", (event) => {
      event.preventDefault();
      if (event.dataTransfer.files.length) this.send(event.dataTransfer.files[0]);
    });
  }

  async send(file) {
    const bar = document.createElement("progress");
    bar.max = 1;
    bar.value = 0;
    bar.setAttribute("aria-label", file.name);
    this.report.replaceChildren(bar);
    const answer = await sent(this.getAttribute("action"), file, (share) => (bar.value = share), {
      "X-CSRF-Token": csrf(),
      "Content-Type": "application/octet-stream",
    });
    this.report.replaceChildren(...(answer.ok ? this.told(file, answer.body) : [this.refused(file, answer.reason)]));
  }

  told(file, found) {
    const created = Object.entries(found.created).map(([type, number]) => `${number} ${type}`);
    const made = created.length ? created.join(", ") : "0";
    const line = text(
      "p",
      `${file.name}: ${made} ${this.dataset.created}, ${found.updated} ${this.dataset.updated}, ` +
        `${found.unchanged} ${this.dataset.unchanged}`,
    );
    line.className = "notice";
    if (!found.problems.length) return [line];
    const list = document.createElement("ul");
    for (const each of found.problems.slice(0, 50)) list.append(text("li", `${each.file}: ${each.reason}`));
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
