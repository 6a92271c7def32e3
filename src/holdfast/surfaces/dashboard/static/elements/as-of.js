// A slider beside a date field: days since the workspace began, the last one is now. Without scripts the field stays.
const DAY = 86400000;

class AsOf extends HTMLElement {
  connectedCallback() {
    const field = this.querySelector("input[type=date]");
    const first = Date.parse(this.dataset.first);
    const days = Math.round((Date.parse(this.dataset.last) - first) / DAY);
    if (!field || !(days > 0) || this.querySelector("input[type=range]")) return;
    const slider = document.createElement("input");
    slider.type = "range";
    slider.max = String(days);
    slider.value = String(field.value ? Math.round((Date.parse(field.value) - first) / DAY) : days);
    slider.setAttribute("aria-label", this.dataset.label);
    const told = () => slider.setAttribute("aria-valuetext", field.value || this.dataset.last);
    slider.addEventListener("input", () => {
      const at = Number(slider.value);
      field.value = at === days ? "" : new Date(first + at * DAY).toISOString().slice(0, 10);
      told();
    });
    field.addEventListener("input", () => {
      slider.value = String(field.value ? Math.round((Date.parse(field.value) - first) / DAY) : days);
      told();
    });
    told();
    this.append(slider);
  }
}

customElements.define("as-of", AsOf);
