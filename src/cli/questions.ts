import { innermostQuestion, type Question } from '../core/journal/index.ts';
import { quoted, resumeCommand, type TaskPlace } from './next-commands.ts';
import { cut, oneLine } from './one-line.ts';
import type { Style } from './style.ts';
import type { Terminal } from './terminal.ts';
import { wrapLines } from './wrap-lines.ts';

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
export function meaningOf({ kind }: Question): string {
  return meanings[kind];
}

const meanings: Readonly<Record<Kind, string>> = {
  approval: 'needs approval',
  'in-doubt': 'was cut off: did it take effect?',
  'client-tool': 'has to be run by you',
  input: 'asks',
  auth: 'asks for credentials',
};

export interface QuestionLineOptions {
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
export function calledBy(question: Question): readonly string[] {
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
