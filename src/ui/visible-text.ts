/** Characters that reorder or hide what stands around them: they can make text read as something else. */
const reordering = /[\u202a-\u202e\u2066-\u2069]/g;
/** C0 without tab and line feed, DEL, C1: what terminals take as commands. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** Text of a model, a tool or a user as a page can show it: control characters and characters that reorder text become visible. */
export function visibleText(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .replace(controls, (character) => {
      const code = character.charCodeAt(0);
      if (code < 0x20) return String.fromCharCode(0x2400 + code);
      return code === 0x7f ? '\u2421' : codePoint(code);
    })
    .replace(reordering, (character) => codePoint(character.charCodeAt(0)));
}

function codePoint(code: number): string {
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, '0')}⟩`;
}
