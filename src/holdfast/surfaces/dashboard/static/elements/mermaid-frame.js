// Runs inside the sandboxed frame of a diagram, which is of no origin and may load nothing but this and Mermaid.
const source = document.querySelector("pre");
mermaid.initialize({ startOnLoad: false, securityLevel: "strict" });
mermaid.run({ nodes: [source] }).catch((problem) => {
  const line = document.createElement("p");
  line.textContent = problem.message ?? String(problem);
  source.before(line);
});
