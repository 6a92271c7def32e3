// A place to drop files: each is sent by itself, with its progress; what was refused says why.
import { csrf, sent } from "../app.js";

class DropUpload extends HTMLElement {
  connectedCallback() {
    const input = this.querySelector("input");
    input.addEventListener("change", () => {
      for (const file of input.files) this.send(file);
      input.value = "";
    });
    for (const kind of ["dragenter", "dragover"]) {
      this.addEventListener(kind, (event) => {
        event.preventDefault();
        this.classList.add("over");
      });
    }
    for (const kind of ["dragleave", "drop"]) this.addEventListener(kind, () => this.classList.remove("over"));
    this.addEventListener("drop", (event) => {
      event.preventDefault();
      for (const file of event.dataTransfer.files) this.send(file);
    });
  }

  async send(file) {
    const line = document.createElement("p");
    const bar = document.createElement("progress");
    bar.max = 1;
    bar.value = 0;
    bar.setAttribute("aria-label", file.name);
    line.append(file.name, " ", bar);
    this.append(line);
    const form = new FormData();
    form.append("file", file);
    const answer = await sent(this.getAttribute("action"), form, (share) => (bar.value = share), {
      "X-CSRF-Token": csrf(),
    });
    if (answer.ok) {
      line.remove();
      window.htmx?.trigger(document.getElementById("found"), "live");
      return;
    }
    line.textContent = `${file.name} ${this.dataset.failed}: ${answer.reason}`;
    line.className = "alert";
    line.setAttribute("role", "alert");
  }
}

customElements.define("drop-upload", DropUpload);
