// A turn on the wire: the endpoint's server-sent events, one object each.

export async function* events(url, body, headers, signal) {
  const answer = await fetch(url, { method: "POST", headers, body, signal });
  if (!answer.ok) throw new Error(await problem(answer));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    let end;
    while ((end = held.indexOf("\n\n")) >= 0) {
      const line = held.slice(0, end);
      held = held.slice(end + 2);
      if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
      const told = JSON.parse(line.slice(6));
      if (told.error) throw new Error(told.error.message ?? String(told.error));
      yield told;
    }
  }
}

async function problem(answer) {
  try {
    return (await answer.json()).error.message;
  } catch {
    return answer.statusText || String(answer.status);
  }
}
