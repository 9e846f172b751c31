import { isSuspended } from '../core/contracts/index.ts';
import { openQuestions, taskState } from '../core/journal/index.ts';
import { duration } from './duration.ts';
import { withKeptFlags } from './kept-flags.ts';
import { resumeCommand, showCommand, type TaskPlace, watchCommand } from './next-commands.ts';
import { answerCommand, questionLines } from './questions.ts';
import { count } from './tally.ts';
import type { Terminal } from './terminal.ts';
import type { Timeline } from './timeline.ts';

export interface StandingOptions {
  /** Whether a process holds the task. */
  readonly held: boolean;
  readonly place: TaskPlace;
  readonly terminal: Terminal;
}

/** The state of a turn, its totals, what it waits for, and the command that resumes it. */
export function standingLines(timeline: Timeline, options: StandingOptions): readonly string[] {
  const { style } = options.terminal;
  const { state } = timeline;
  const name = taskState(state);
  const paint = name === 'completed' ? style.green : name === 'failed' ? style.red : style.yellow;
  const why = state.error?.message ?? (name === 'canceled' ? state.outcome?.reason : undefined);
  const sum = [
    paint(stateName(name, options.held)),
    count(state.iteration, 'iteration'),
    count(state.toolCalls, 'tool call'),
    count(state.usage.totalTokens, 'token'),
    duration(state.updatedAt - state.turn.createdAt),
  ].join(style.dim(` ${style.glyphs.dot} `));
  return ['', sum, ...(why === undefined ? [] : [style.red(why)]), ...nextLines(timeline, options)];
}

/** A state in the words of `tasks`: what nobody runs can be resumed. */
export function stateName(state: string, held: boolean): string {
  return !held && (state === 'working' || state === 'submitted') ? 'resumable' : state;
}

function nextLines({ state }: Timeline, { held, place: given, terminal }: StandingOptions): readonly string[] {
  const place = withKeptFlags(given, state.turn.metadata);
  const { style, stdout } = terminal;
  const questions = openQuestions(state);
  const asked = questions.flatMap((question) => questionLines(question, { style, columns: stdout.columns }));
  if (state.isComplete) return [];
  const { parent } = state.turn;
  if (parent) {
    const command = showCommand({ ...given, taskId: parent.taskId });
    return [style.dim('it is resumed with its parent turn; see:'), `  ${command}`];
  }
  if (held && questions.length === 0)
    return [style.dim('a process runs it; follow it with:'), `  ${watchCommand(place)}`];
  const suspended = state.outcome !== undefined && isSuspended(state.outcome.state);
  const command = questions.length > 0 ? answerCommand(questions, place) : resumeCommand(place);
  const how =
    questions.length > 0 ? 'answer with:' : suspended ? 'suspended; resume with:' : 'no process runs it; resume with:';
  return [...asked, style.dim(how), `  ${command}`];
}
