import { innermostQuestion, isObject } from '../core/contracts/index.ts';
import { answerFlaw, type Question } from '../core/journal/index.ts';
import type { Answers } from './arguments.ts';
import { columnsOf, cut, wrapLines } from './columns.ts';
import { oneLine } from './format.ts';
import type { LineSource } from './line-source.ts';
import { quoted, resumeCommand, type TaskPlace } from './next-commands.ts';
import { complain, type Style, type Terminal } from './terminal.ts';

type Kind = Question['kind'];

/** An answer to each kind, as JSON, to be changed. */
const examples: Readonly<Record<Kind, string>> = {
  approval: '{"approved":true}',
  'in-doubt': '{"outcome":"not-applied"}',
  'client-tool': '{"result":"…"}',
  input: '"…"',
  auth: '"…"',
};

/** The text of a question after the name of its tool. */
function meaningOf({ kind }: Question): string {
  return meanings[kind];
}

const meanings: Readonly<Record<Kind, string>> = {
  approval: 'needs approval',
  'in-doubt': 'was cut off: did it take effect?',
  'client-tool': 'has to be run by you',
  input: 'asks',
  auth: 'asks for credentials',
};

interface QuestionLineOptions {
  readonly style: Style;
  /** A line takes one column less at most. */
  readonly columns: number;
}

/**
 * A question for a person: the call that asks, its tool, what it asks about, and its prompt. Where a child turn asks, its tool, data and prompt.
 */
export function questionLines(question: Question, { style, columns }: QuestionLineOptions): readonly string[] {
  const { id } = question;
  const asking = innermostQuestion(question);
  const { prompt } = asking;
  const head = `  ? ${id}  `;
  const about = oneLine(asking.data);
  const tools = calledBy(question).map(oneLine).join(` ${style.glyphs.arrow} `);
  const said = `${tools} ${meaningOf(asking)}${about === '' ? '' : `: ${about}`}`;
  const indent = ' '.repeat(head.length);
  return [
    `  ${style.yellow('?')} ${style.bold(id)}  ${cut(said, columns - 1 - head.length, style.glyphs.ellipsis)}`,
    ...(prompt === undefined ? [] : wrapLines(oneLine(prompt), columns - 1 - head.length).map((line) => indent + line)),
  ];
}

/** The tools from the turn's own call to that of the child turn which asks. */
function calledBy(question: Question): readonly string[] {
  const inner = innermostQuestion(question);
  return inner === question ? [question.toolName] : [question.toolName, inner.toolName];
}

/** The command that answers all questions, with examples to be changed. */
export function answerCommand(questions: readonly Question[], place: TaskPlace): string {
  const answers = questions.map((question) => {
    const { kind } = innermostQuestion(question);
    return ` --answer ${quoted(`${question.id}=${examples[kind]}`)}`;
  });
  return resumeCommand(place) + answers.join('');
}

/** Prints to stderr what a suspended turn waits for, and the command that resumes it. */
export function showWaiting(questions: readonly Question[], place: TaskPlace, terminal: Terminal): void {
  const { stderr, errorStyle: style } = terminal;
  const lines = [
    ...questions.flatMap((question) => questionLines(question, { style, columns: stderr.columns })),
    style.dim(questions.length === 0 ? '  resume with:' : '  answer with:'),
    `  ${answerCommand(questions, place)}`,
  ];
  void stderr.write(lines.map((line) => `${line}\n`).join(''));
}

/** What came of asking: the answers by question; or the turn is to be cancelled, or left as it waits. */
type Asked = Answers | 'cancel' | 'leave';

interface AskOptions {
  readonly lines: LineSource;
  readonly terminal: Terminal;
  /** Shows the lines of a question. */
  readonly show: (lines: readonly string[]) => void;
}

const help = 'Ctrl-C or /cancel stops the turn; /all shows the question in full; Ctrl-D or /quit exits';

/** Shows the questions of a turn, one after the other, and reads an answer to each, again where it does not fit. */
export async function askQuestions(questions: readonly Question[], options: AskOptions): Promise<Asked> {
  const answers = new Map<string, unknown>();
  for (const question of questions) {
    const asked = await askOne(question, options);
    if (typeof asked === 'string') return asked;
    answers.set(question.id, asked.answer);
  }
  return Object.fromEntries(answers);
}

async function askOne(
  question: Question,
  { lines, terminal, show }: AskOptions,
): Promise<{ readonly answer: unknown } | 'cancel' | 'leave'> {
  const { stderr, errorStyle: style } = terminal;
  const showBlock = (whole: boolean) => show(questionBlock(question, { style, columns: stderr.columns }, whole));
  const prompt = `  ${style.dim(`(${answerHint(question)})`)} ${style.cyan(style.glyphs.prompt)} `;
  showBlock(false);
  for (;;) {
    const entry = await lines.answer({ prompt, secret: isSecret(question) });
    if (entry.kind === 'interrupted') return 'cancel';
    if (entry.kind === 'end') return 'leave';
    const text = entry.text.trim();
    if (text === '/cancel') return 'cancel';
    if (text === '/quit' || text === '/exit') return 'leave';
    if (text === '/all') showBlock(true);
    else if (text === '/help')
      void stderr.write(
        wrapLines(help, stderr.columns - 3)
          .map((l) => `  ${l}\n`)
          .join(''),
      );
    else {
      const typed = typedAnswer(question, text);
      if ('answer' in typed) return typed;
      complain(terminal, typed.flaw);
    }
  }
}

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
  if (!isObject(data)) return yield jsonOf(data);
  for (const [name, value] of Object.entries(data)) yield `${name}: ${jsonOf(value)}`;
}

function jsonOf(value: unknown): string {
  return JSON.stringify(value) ?? String(value);
}

/** The text with everything unseen written as in JSON. */
function escaped(text: string): string {
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

/** What was typed, as the answer to a question; or what is wrong with it. */
type TypedAnswer = { readonly answer: unknown } | { readonly flaw: string };

/** What may be typed, for the prompt. */
export function answerHint(question: Question): string {
  const asking = innermostQuestion(question);
  switch (asking.kind) {
    case 'approval':
      return 'y, n, or n and why';
    case 'in-doubt':
      return 'y and its result, n to run it again, ? if unknown';
    case 'client-tool':
      return 'its result, or /fail and a reason';
    case 'auth':
      return urlOf(asking) === undefined ? 'answer, not shown' : 'y once you have been there, or n';
    case 'input':
      return formField(asking)?.type === 'boolean' ? 'y or n' : 'answer';
  }
}

/** Whether the answer is nobody else's to read. */
export function isSecret(question: Question): boolean {
  const asking = innermostQuestion(question);
  return asking.kind === 'auth' && urlOf(asking) === undefined;
}

/**
 * Reads a line as the answer to a question: `y` and `n` where it is about yes and no; else text, or JSON where it begins as an object,
 * an array or a string of JSON.
 */
export function typedAnswer(question: Question, line: string): TypedAnswer {
  const text = line.trim();
  const asking = innermostQuestion(question);
  const typed = readAs(asking, text);
  if ('flaw' in typed) return typed;
  const flaw = answerFlaw(question, typed.answer);
  return flaw === undefined ? typed : { flaw };
}

function readAs(asking: Question, text: string): TypedAnswer {
  const { yes, no, rest } = /^(?:(?<yes>y|yes)|(?<no>n|no))(?:[\s,:]+(?<rest>.*))?$/is.exec(text)?.groups ?? {};
  switch (asking.kind) {
    case 'approval':
      if (yes !== undefined && !rest) return { answer: { approved: true } };
      if (no !== undefined) return { answer: { approved: false, ...(rest && { reason: rest }) } };
      return { flaw: 'answer y to run it, or n, or n and a reason' };
    case 'in-doubt':
      if (yes !== undefined)
        return { answer: { outcome: 'applied', content: rest || 'It took effect; its result is unknown.' } };
      if (no !== undefined && !rest) return { answer: { outcome: 'not-applied' } };
      if (text === '?') return { answer: { outcome: 'unknown' } };
      return { flaw: 'answer y (and its result) if it took effect, n to run it again, ? if unknown' };
    case 'client-tool':
      return clientResult(text);
    case 'auth':
      if (urlOf(asking) === undefined) return valueIn(text);
      if (yes !== undefined || no !== undefined) return { answer: yes !== undefined };
      return { flaw: 'answer y once you have been there, or n' };
    case 'input':
      return inputOf(asking, text, yes === undefined && no === undefined ? undefined : yes !== undefined);
  }
}

function clientResult(text: string): TypedAnswer {
  const { why } = /^\/fail(?:\s+(?<why>.*))?$/s.exec(text)?.groups ?? {};
  if (why !== undefined) return { answer: { error: why } };
  if (text === '/fail') return { flaw: 'say why it failed: /fail the printer is out of paper' };
  const value = valueIn(text);
  return 'flaw' in value ? value : { answer: { result: value.answer } };
}

function inputOf(asking: Question, text: string, agreed: boolean | undefined): TypedAnswer {
  const field = formField(asking);
  if (field?.type === 'boolean') return agreed === undefined ? { flaw: 'answer y or n' } : { answer: agreed };
  if (field?.type === 'number' || field?.type === 'integer') {
    const number = Number(text);
    return text === '' || Number.isNaN(number) ? { flaw: 'answer with a number' } : { answer: number };
  }
  return valueIn(text);
}

function valueIn(text: string): TypedAnswer {
  if (text === '') return { flaw: 'the answer is empty; type "" for an empty string, or /cancel to stop the turn' };
  if (!/^[{["]/.test(text)) return { answer: text };
  try {
    return { answer: JSON.parse(text) };
  } catch {
    return text.startsWith('{')
      ? { flaw: 'the answer begins like a JSON object but cannot be parsed' }
      : { answer: text };
  }
}

/** The address that an MCP server wants its user to go to. */
function urlOf({ data }: Question): string | undefined {
  const url = memberOf(data, 'url');
  return typeof url === 'string' ? url : undefined;
}

/** The field of a form that has one. */
function formField({ data }: Question): { readonly type: unknown } | undefined {
  const properties = memberOf(memberOf(data, 'requestedSchema'), 'properties');
  if (typeof properties !== 'object' || properties === null) return undefined;
  const [field, ...others] = Object.values(properties);
  return field === undefined || others.length > 0 ? undefined : { type: memberOf(field, 'type') };
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}
