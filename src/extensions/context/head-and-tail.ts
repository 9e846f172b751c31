/**
 * Truncates a string to its beginning and its end, with a note between them on lines of its own; `noteOf` receives how many
 * characters are left out. The whole is at most `maxChars` characters, or the note alone where that is more. Surrogate
 * pairs stay whole. A string that fits beside the note is kept, followed by the note.
 */
export function headAndTail(text: string, maxChars: number, noteOf: (leftOut: number) => string): string {
  const room = maxChars - noteOf(text.length).length - 2;
  if (text.length === 0 || room < 2) return noteOf(text.length);
  if (text.length <= room) return `${text}\n${noteOf(0)}`;
  const half = Math.floor(room / 2);
  const headEnd = splitsPair(text, half) ? half - 1 : half;
  const tailStart = splitsPair(text, text.length - half) ? text.length - half + 1 : text.length - half;
  return `${text.slice(0, headEnd)}\n${noteOf(tailStart - headEnd)}\n${text.slice(tailStart)}`;
}

function splitsPair(text: string, at: number): boolean {
  const [before, after] = [text.charCodeAt(at - 1), text.charCodeAt(at)];
  return before >= 0xd800 && before <= 0xdbff && after >= 0xdc00 && after <= 0xdfff;
}
