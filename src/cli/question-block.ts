import { innermostQuestion, type Question } from '../core/journal/index.ts';
import { columnsOf } from './one-line.ts';
import { calledBy, meaningOf, type QuestionLineOptions } from './questions.ts';

/** More lines than this are shown where they are asked for only. */
const mostLines = 24;
/** Of more characters than this nobody counts the lines that are not shown. */
const mostCounted = 100_000;
const indent = '         ';

/** Not printed, or printed so that the text around it looks like something else. */
const unseen = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

/**
 * A question for the person who answers it at once: whose call it is, the words, and everything that it is about, a member a line, as
 * JSON. Nothing is left out without a word, and what a terminal would follow or hide is written as `\u001b`: who approves a call has
 * seen it. With `whole` without a limit of lines.
 */
export function questionBlock(
  question: Question,
  { style, columns }: QuestionLineOptions,
  whole = false,
): readonly string[] {
  const asking = innermostQuestion(question);
  const room = Math.max(20, columns - 1 - indent.length);
  const tools = calledBy(question).map(escaped).join(` ${style.glyphs.arrow} `);
  const all: string[] = [];
  let counted = 0;
  let isCut = false;
  for (const text of textsOf(asking)) {
    const most = whole ? text.length : mostCounted - counted;
    isCut = text.length > most;
    for (const line of folded(escaped(text.slice(0, most)), room)) all.push(line);
    counted += text.length;
    if (isCut) break;
  }
  const shown = whole ? all : all.slice(0, mostLines);
  const left = Math.max(all.length - shown.length, isCut ? 1 : 0);
  const atLeast = isCut ? 'at least ' : '';
  return [
    ...folded(`  ? ${question.id}  ${tools} ${meaningOf(asking)}`, columns - 1).map((line, index) =>
      index === 0 ? style.bold(line) : line,
    ),
    ...shown.map((line) => indent + line),
    ...(left === 0
      ? []
      : [indent + style.yellow(`${style.glyphs.ellipsis} ${atLeast}${left} more lines; /all shows them`)]),
  ];
}

/** The words of a question, and each member of what it is about. */
function* textsOf({ prompt, data }: Question): Generator<string> {
  if (prompt !== undefined) yield prompt;
  if (data === undefined) return;
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return yield jsonOf(data);
  for (const [name, value] of Object.entries(data)) yield `${name}: ${jsonOf(value)}`;
}

function jsonOf(value: unknown): string {
  return JSON.stringify(value) ?? String(value);
}

/** The text with everything unseen written as in JSON. */
export function escaped(text: string): string {
  return text.replace(unseen, (found) =>
    found
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}

/** The text in lines of at most so many columns, broken wherever one is full. */
function folded(text: string, columns: number): readonly string[] {
  const lines: string[] = [];
  let line = '';
  let used = 0;
  for (const character of text) {
    const width = columnsOf(character);
    if (used + width > columns) {
      lines.push(line);
      line = '';
      used = 0;
    }
    line += character;
    used += width;
  }
  return [...lines, line];
}
