import type { AgentLoopConfig, ToolContext, ToolDefinition, ToolPolicy, ToolProvider, ToolResult } from 'millrace';
import { journal } from 'millrace/internals';
import type { Signal, TurnDeps } from 'millrace/operators';
import { map, type Observable, type Subscription } from 'rxjs';
import { answerWhen, type MarbleHelpers, marbles } from './marbles.ts';
import { shown } from './open-batch.ts';
import { turnDeps } from './turn-deps.ts';

export interface TimedTool extends ToolPolicy {
  /** When and how the tool answers, in marbles: `r` a result, `f` a reported failure. */
  readonly answers: string;
  /** When and how the check of its arguments answers, `y` or `n`; default: no check. */
  readonly checks?: string;
}

/** What happens in a batch and when, in the order in which it happens. */
export type Timeline = string[];

/** Tools that answer in virtual time; the timeline tells when each call started and was told to stop. */
export function timedTools(
  tools: Readonly<Record<string, TimedTool>>,
  timeline: Timeline,
  { cold, clock }: MarbleHelpers,
): ToolProvider {
  const checkOf = (checks: string | undefined): Pick<ToolDefinition, 'checkArguments'> => {
    if (checks === undefined) return {};
    const answers = { y: { ok: true, value: 'checked' }, n: { ok: false, message: 'wrong' } } as const;
    return { checkArguments: () => answerWhen(cold(checks, answers)) };
  };
  return {
    getTools: () =>
      Object.entries(tools).map(([name, { answers: _, checks, ...policy }]) => ({
        type: 'function',
        function: { name, description: name, parameters: { type: 'object' } },
        ...policy,
        ...checkOf(checks),
      })),
    executeTool(call, { callId, signal }: ToolContext) {
      timeline.push(`${clock.now()}: ${callId} starts`);
      signal.addEventListener('abort', () => timeline.push(`${clock.now()}: ${callId} is aborted`));
      const result: ToolResult = { toolCallId: call.id, content: 'fine', success: true };
      const answers = tools[call.function.name]?.answers ?? '#';
      return answerWhen(cold(answers, { r: result, f: { ...result, success: false } }, new Error('broken')));
    },
  };
}

export interface Plan {
  readonly tools: Readonly<Record<string, TimedTool>>;
  /** What the model asks for, by name. */
  readonly calls: readonly string[];
  readonly config?: Partial<AgentLoopConfig>;
  /** What happens to the batch at a time, in ms. */
  readonly meanwhile?: readonly [at: number, act: (deps: TurnDeps, batch: Subscription) => void];
}

/** Runs a batch of timed tools, its commits durable at once, and tells what happens when. */
export function timelineOf(
  { tools, config, meanwhile }: Plan,
  batchOf: (deps: TurnDeps) => Observable<Signal>,
): Timeline {
  const timeline: Timeline = [];
  marbles((helpers) => {
    const { clock } = helpers;
    const provider = timedTools(tools, timeline, helpers);
    const deps = turnDeps({ clock, toolProviders: [provider], abortGraceMs: 20, ...config });
    const at = (what: string) => timeline.push(`${clock.now()}: ${what}`);
    const batch = batchOf(deps)
      .pipe(journal({ journal: undefined, clock, storeDeadlineMs: 1_000 }), map(shown))
      .subscribe({ next: at, complete: () => at('complete'), error: (error) => at(`error ${error.code}`) });
    if (meanwhile) clock.schedule(meanwhile[0], () => meanwhile[1](deps, batch));
  });
  return timeline;
}

export const leave = (_: TurnDeps, batch: Subscription) => batch.unsubscribe();
