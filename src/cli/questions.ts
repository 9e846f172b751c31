import type { Question } from '../core/records.ts';
import { quoted, resumeCommand, type TaskPlace } from './go-on.ts';
import { cut, oneLine } from './one-line.ts';
import type { Tally } from './tally.ts';
import type { Terminal } from './terminal.ts';
import { wrapLines } from './wrap-lines.ts';

/** A question in the words of the command: who asks what, and what an answer looks like. */
export interface ShownQuestion {
  readonly callId: string;
  /** `approval`, or what else is asked for. */
  readonly kind: Question['kind'];
  readonly prompt: string | undefined;
  /** The tool that asks. Absent where the call is not known. */
  readonly toolName: string | undefined;
  /** In one line. */
  readonly arguments: string;
  /** An answer as JSON, to be changed. */
  readonly example: string;
}

/** The questions that a turn waits for, with the tools that ask. */
export function shownQuestions(questions: readonly Question[], calls: Tally['calls']): readonly ShownQuestion[] {
  return questions.map(({ callId, kind, prompt }) => {
    const call = calls.find((known) => known.callId === callId)?.call.function;
    return {
      callId,
      kind,
      prompt,
      toolName: call?.name,
      arguments: call === undefined ? '' : oneLine(parsed(call.arguments)),
      example: examples[kind],
    };
  });
}

const examples: Readonly<Record<Question['kind'], string>> = {
  approval: '{"approved":true}',
  'in-doubt': '{"outcome":"not-applied"}',
  input: '"…"',
  auth: '"…"',
  'client-tool': '"…"',
};

const meanings: Readonly<Record<Question['kind'], string>> = {
  approval: 'wants your approval',
  'in-doubt': 'was cut off: did it take effect?',
  input: 'asks',
  auth: 'asks for credentials',
  'client-tool': 'waits for you to run it',
};

/** Tells on stderr what a suspended turn waits for, and the command that goes on. */
export function showWaiting(questions: readonly ShownQuestion[], place: TaskPlace, terminal: Terminal): void {
  const { stderr, errorStyle: style } = terminal;
  const columns = stderr.columns - 1;
  const lines = questions.flatMap((question) => [
    `  ${style.yellow('?')} ${style.bold(question.callId)}  ${cut(subject(question), columns - 6 - question.callId.length, style.glyphs.ellipsis)}`,
    ...(question.prompt === undefined
      ? []
      : wrapLines(oneLine(question.prompt), columns - 9).map((line) => `         ${line}`)),
  ]);
  const options = questions.map(({ callId, example }) => ` --answer ${quoted(`${callId}=${example}`)}`).join('');
  lines.push(style.dim('  go on with:'), `  ${resumeCommand(place)}${options}`);
  void stderr.write(lines.map((line) => `${line}\n`).join(''));
}

function subject({ kind, toolName, arguments: given }: ShownQuestion): string {
  return `${toolName === undefined ? 'a call' : oneLine(toolName)} ${meanings[kind]}${given === '' ? '' : `: ${given}`}`;
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return json;
  }
}
