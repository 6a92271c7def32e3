// What a person answers a model's question with, as the endpoint takes it, and the words that stand for it in the chat.

export function answerOf(form, button) {
  const { style } = form.dataset;
  if (style === "confirm") return button?.value;
  if (style === "rating") return button ? Number(button.value) : undefined;
  if (style === "form") {
    const filled = [...form.querySelectorAll("input")].filter((field) => field.value.trim());
    return Object.fromEntries(filled.map((field) => [field.name, field.value]));
  }
  const chosen = [...form.querySelectorAll("[name=option]:checked")].map((box) => box.value);
  const words = form.elements.words?.value.trim();
  const all = [...chosen, ...(words ? [words] : [])];
  if (!all.length) return undefined;
  return all.length === 1 ? all[0] : all;
}

export function textOf(answer) {
  if (Array.isArray(answer)) return answer.join(", ");
  if (typeof answer === "object") return Object.entries(answer).map(([key, value]) => `${key}: ${value}`).join("\n");
  return String(answer);
}
