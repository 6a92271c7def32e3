// A place to drop files: each is sent by itself, with its progress; what was refused says why.
import { csrf } from "../app.js";

class DropUpload extends HTMLElement {
  connectedCallback() {
    const input = this.querySelector("input");
    input.addEventListener("change", () => this.send(input.files));
    this.addEventListener("dragover", (event) => event.preventDefault());
    this.addEventListener("drop", (event) => {
      event.preventDefault();
      this.send(event.dataTransfer.files);
    });
  }

  send(files) {
    for (const file of files) this.one(file);
  }

  one(file) {
    const line = document.createElement("p");
    const bar = document.createElement("progress");
    bar.max = 1;
    bar.value = 0;
    bar.setAttribute("aria-label", file.name);
    line.append(file.name, " ", bar);
    this.append(line);
    const request = new XMLHttpRequest();
    request.open("POST", this.getAttribute("action"));
    request.setRequestHeader("X-CSRF-Token", csrf());
    request.upload.onprogress = (event) => {
      if (event.lengthComputable) bar.value = event.loaded / event.total;
    };
    request.onloadend = () => {
      if (request.status === 201 || request.status === 200) {
        line.remove();
        window.htmx?.trigger(document.getElementById("found"), "live");
        return;
      }
      let reason = "";
      try {
        reason = JSON.parse(request.responseText).error.message;
      } catch {
        reason = request.statusText;
      }
      line.textContent = `${file.name} ${this.dataset.failed}: ${reason}`;
      line.className = "alert";
      line.setAttribute("role", "alert");
    };
    const form = new FormData();
    form.append("file", file);
    request.send(form);
  }
}

customElements.define("drop-upload", DropUpload);
