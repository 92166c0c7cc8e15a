// Files of the workspace. Capabilities: workspace-read and workspace-write.
import { defineSkill, link, s, search, text, workspace } from "patchbay-sdk";

export const skill = defineSkill({
  outline: {
    description: "Writes the headings of all Markdown files to a file, and returns it.",
    input: s.object({ out: s.string("The file to write.").default("OUTLINE.md") }),
    run({ out }) {
      const lines = [];
      for (const { path, isDirectory } of workspace.walk("**/*.md")) {
        if (isDirectory || path === out) continue;
        const headings = workspace.readText(path).split("\n").filter((line) => /^#{1,6} /.test(line));
        lines.push(`## ${path}`, ...headings.map((line) => `- ${line.replace(/^#+ /, "")}`));
      }
      workspace.write(out, `${lines.join("\n")}\n`);
      return [text(`${lines.length} lines`), link(out, "text/markdown")];
    },
  },
  todos: {
    description: "Lists the lines with TODO.",
    readOnly: true,
    input: s.object({}),
    run() {
      // The host searches, in parallel: far faster than reading the files here.
      const { files, stopped } = search.text("TODO", { fixed: true, globs: ["!**/*.lock"], maxLines: 200 });
      const found = files.flatMap(({ path, lines }) => lines.map((line) => `${path}:${line.number}: ${line.text.trim()}`));
      return [...found, ...(stopped ? [`(stopped: ${stopped})`] : [])].join("\n") || "none";
    },
  },
});
