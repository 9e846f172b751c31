import { Observable, of, type Subscriber } from 'rxjs';
import {
  type AgentEvent,
  type AgentLoopConfig,
  AgentLoopError,
  type StartOptions,
  shownValue,
} from '../core/contracts/index.ts';
import { eventsOf, type JournalRecord, type LoopState, resultOf, type TurnResult } from '../core/journal/index.ts';
import { type Admission, AgentLoop } from '../tasks/agent-loop.ts';
import { iterateEvents } from '../tasks/read-events.ts';
import type { Turn } from '../tasks/turn.ts';
import { withArtifactTools } from '../tools/artifact-tools.ts';
import { Conductor, type Controls, leaseMs, type ReplayClock, ReplayStore, replayClock } from './conductor.ts';
import { recordedCalls } from './recorded-calls.ts';
import { recordedExtensions } from './recorded-extensions.ts';
import {
  type Deviation,
  extensionCodes,
  givenRecords,
  nameOf,
  type Recording,
  type ReplayRun,
  recordingOf,
  runsOf,
  toolsOffered,
} from './recording.ts';

export { describe } from './recording.ts';

import { replayModel, replayTools } from './replay-answers.ts';
import { recordedAgents, recordedSettings } from './replay-settings.ts';
import { Score } from './score.ts';

/** A journal in memory, as `store.read` gives it, or what holds one. */
export type Journal = readonly JournalRecord[] | { readonly records: readonly JournalRecord[] };

/** Options of a replay. */
export interface ReplayOptions {
  /**
   * `'strict'` (default): any deviation is an error that shows what was expected and what came. `'forgiving'`: deviations are
   * noted, and the loop continues with the recorded answers as far as they match.
   */
  readonly mode?: 'strict' | 'forgiving' | undefined;
  /** How long the loop may take from one record to the next before that is a deviation. Milliseconds; default 5,000. */
  readonly patienceMs?: number | undefined;
}

/** The result of a replay, and where it differed from the recording. */
export type ReplayResult = TurnResult & {
  /** In a strict replay none. */
  readonly deviations: readonly Deviation[];
  /** The journal of the replay; of a strict one the recording. */
  readonly records: readonly JournalRecord[];
};

/**
 * Runs the real loop with the model's recorded answers and the recorded results of tools: no network, no effects. Whoever ran the
 * turn, however often it was killed, paused, steered, cancelled or resumed: the same records come about, and the same events of
 * records as `AgentLoop.observe` gives of the recording.
 *
 * Without a `config`, tools, limits and what extensions decided are as the recording shows them. Errors: `INVALID_INPUT`, `POISON` or `SCHEMA` for what is no
 * journal, at once; through the replay `DEVIATION` where the loop does something else than was recorded, `INVALID_CONFIG`.
 */
export function replay(journal: Journal, config: ReplayConfig = {}, options: ReplayOptions = {}): Replay {
  checkOptions(options);
  return Replay.of(recordingOf('records' in journal ? journal.records : journal), config, options);
}

/**
 * The replay of a turn: an Observable of its events, also async-iterable. Nothing happens before the first subscription or
 * `result()`; each of them replays anew. Completes after the last record; errors with `DEVIATION`. Unsubscribing stops it.
 */
export class Replay extends Observable<AgentEvent> implements AsyncIterable<AgentEvent> {
  readonly taskId: string;
  readonly #play: (subscriber?: Subscriber<AgentEvent>) => Promise<ReplayResult>;

  private constructor(recording: Recording, config: ReplayConfig, options: ReplayOptions) {
    super((subscriber) => {
      this.#play(subscriber).then(
        () => subscriber.complete(),
        (error: unknown) => subscriber.error(error),
      );
    });
    this.taskId = recording.started.taskId;
    this.#play = (subscriber) => play(recording, { config, options, subscriber });
  }

  /** @internal */
  static of(recording: Recording, config: ReplayConfig, options: ReplayOptions): Replay {
    return new Replay(recording, config, options);
  }

  /** Replays the turn. Resolves with how it ended, also where that was a failure or a cancel; rejects with `DEVIATION`. */
  result(): Promise<ReplayResult> {
    return this.#play();
  }

  /** The events of the replay. Subscribes at the first `next()`; `return()` unsubscribes. */
  [Symbol.asyncIterator](): AsyncIterator<AgentEvent> {
    return iterateEvents(this);
  }
}

interface Performance {
  readonly config: ReplayConfig;
  readonly options: ReplayOptions;
  readonly subscriber: Subscriber<AgentEvent> | undefined;
}

async function play(recording: Recording, { config, options, subscriber }: Performance): Promise<ReplayResult> {
  const records: JournalRecord[] = [];
  const stage = new Stage(recording, {
    config: withArtifactTools(config),
    strict: options.mode !== 'forgiving',
    patienceMs: options.patienceMs ?? 5_000,
    onRecord(record, before, last) {
      records.push(record);
      if (!subscriber) return;
      for (const event of eventsOf(before, record, { checkpoints: true, shown: '', last })) subscriber.next(event);
    },
  });
  subscriber?.add(() => stage.leave());
  const { deviations, state } = await stage.play();
  return { ...resultOf(state), deviations, records };
}

function checkOptions({ mode, patienceMs }: ReplayOptions): void {
  if (mode !== undefined && mode !== 'strict' && mode !== 'forgiving') {
    throw new AgentLoopError('INVALID_INPUT', `mode must be "strict" or "forgiving", not ${shownValue(mode)}.`);
  }
  if (patienceMs === undefined || (Number.isFinite(patienceMs) && patienceMs > 0)) return;
  const message = `patienceMs must be milliseconds above 0, not ${shownValue(patienceMs)}; or leave it out.`;
  throw new AgentLoopError('INVALID_INPUT', message);
}

/**
 * The loop that is to do what was recorded, as far as a journal does not say it: tools, system prompt, limits. The model, the store
 * and the clock are the recording's, whatever is given here; of tools only their definitions are used, and none is run.
 */
export type ReplayConfig = Partial<AgentLoopConfig>;

interface StageOptions {
  readonly config: ReplayConfig;
  readonly strict: boolean;
  readonly patienceMs: number;
  /** Called with each record, in order. `last`: the recording ends with it. */
  readonly onRecord: (record: JournalRecord, before: LoopState | undefined, last: boolean) => void;
}

/** The runs of a recording, played one after another. */
class Stage {
  readonly #recording: Recording;
  readonly #options: StageOptions;
  readonly #clock: ReplayClock;
  readonly #score: Score;
  readonly #conductor: Conductor;
  readonly #store: ReplayStore;
  readonly #settings: ReturnType<typeof settingsOf>;

  constructor(recording: Recording, options: StageOptions) {
    const { records } = recording;
    this.#recording = recording;
    this.#options = options;
    this.#clock = replayClock(recording.started.at);
    this.#settings = settingsOf(recording, options.config);
    this.#score = new Score({
      recording,
      strict: options.strict,
      onRecord: (record, before) => options.onRecord(record, before, record.seq >= records.length),
    });
    const { patienceMs } = options;
    this.#conductor = new Conductor({ score: this.#score, clock: this.#clock, patienceMs });
    this.#store = new ReplayStore(this.#score, this.#conductor);
  }

  leave(): void {
    this.#conductor.fail(new AgentLoopError('CANCELED', 'The replay was cancelled.'));
  }

  /** Rejects with what went wrong. */
  async play(): Promise<{ readonly deviations: readonly Deviation[]; readonly state: LoopState }> {
    const { records } = this.#recording;
    const given = givenRecords(records);
    if (given > 1) this.#store.put(this.#recording.started.taskId, this.#score.skip(given));
    for (const run of runsOf(records)) {
      if (!this.#score.isFree) await this.#playRun(run);
    }
    this.#noteUnused();
    const { deviations, state } = this.#score;
    if (state) return { deviations, state };
    throw new AgentLoopError('INTERNAL', 'The replay ended without a record.');
  }

  async #playRun(run: ReplayRun): Promise<void> {
    const { taskId } = this.#recording.started;
    if (run.kind === 'visit') return this.#store.put(taskId, this.#score.skip(run.to));
    try {
      await this.#follow(run);
    } catch (error) {
      throw this.#conductor.failure ?? error;
    } finally {
      this.#conductor.end();
    }
  }

  /** Runs a turn until it ends, suspends, or its recorded owner died. */
  async #follow(run: ReplayRun): Promise<void> {
    const turn = this.#turnOf(run);
    this.#conductor.begin(run, controlsOf(turn, this.#store));
    turn.subscribe({ next: () => this.#conductor.shown(), error: () => {} });
    try {
      await turn.settled;
    } catch (error) {
      if (this.#conductor.failure || !this.#conductor.isDead) throw error;
    }
    if (!this.#score.isFree && this.#score.due) this.#score.leaveSilent();
  }

  #turnOf(run: ReplayRun): Turn {
    const { taskId, contextId, agentId, messages, settings, metadata, follows } = this.#recording.started;
    const config = this.#configOf(run);
    if (run.kind === 'resume') {
      const answers = answersOf(this.#recording, run);
      return AgentLoop.resumeAdmitted(taskId, config, { answers }, resumptionOf(this.#recording, run));
    }
    const options: StartOptions = { taskId, contextId, agentId, ...settings, ...(metadata ? { metadata } : {}) };
    // Admitted as the recorded turn was: also without messages, as journals of 0.1 allow.
    return new AgentLoop(config).startAdmitted(messages, options, { follows });
  }

  #configOf(run: ReplayRun): AgentLoopConfig {
    const { records, started } = this.#recording;
    const { config } = this.#options;
    const [score, conductor] = [this.#score, this.#conductor];
    const tools = {
      conductor,
      records,
      providers: config.toolProviders,
      offered: () => toolsOfAgent(records, run, score.next),
      failure: toolFailure(this.#recording, run),
    };
    const llmProvider = replayModel({
      conductor,
      score,
      records,
      systemPrompt: config.systemPrompt,
      hasViews: hasViews(config),
    });
    const toolProviders = replayTools(tools);
    return {
      enableTracing: false,
      ...recordedAgents(records, { ...this.#settings, llmProvider, toolProviders }),
      ...this.#settings,
      ...(config.extensions ? {} : { extensions: this.#extensions() }),
      agentId: started.agentId,
      llmProvider,
      toolProviders,
      taskStateStore: this.#store,
      clock: this.#clock,
      leaseMs,
    };
  }

  #extensions() {
    const { records } = this.#recording;
    const approves = this.#options.config.toolProviders === undefined;
    const whenDue = (callId: string) =>
      new Promise<void>((resolve) => this.#conductor.await(callId, { give: () => resolve(), improvise: resolve }));
    return recordedExtensions({ score: this.#score, records, calls: recordedCalls(records), approves, whenDue });
  }

  /** Answers and results that no call took. */
  #noteUnused(): void {
    if (!this.#score.isFree) return;
    const taken = new Set(this.#store.read(this.#recording.started.taskId).map(nameOf));
    for (const record of this.#recording.records) {
      if (record.type !== 'llm.done' && record.type !== 'tool.result') continue;
      if (!taken.has(nameOf(record))) this.#score.note({ seq: record.seq, what: 'not used', expected: nameOf(record) });
    }
  }
}

/** What the agent that has the turn at a record was offered in the run. */
function toolsOfAgent(records: readonly JournalRecord[], { from, to }: ReplayRun, at: number) {
  const isChange = ({ type }: JournalRecord) => type === 'agent.changed';
  const start = records.slice(0, at).findLastIndex(isChange);
  const end = records.findIndex((record, index) => index >= at && isChange(record));
  return toolsOffered(records, Math.max(from, start), end < 0 ? to : Math.min(to, end));
}

function hasViews({ extensions = [] }: ReplayConfig): boolean {
  return extensions.some(({ prepareIteration, beforeLLMCall }) => prepareIteration || beforeLLMCall);
}

/** Whether another turn was before it. */
function resumptionOf({ records }: Recording, { from }: ReplayRun): Admission {
  const first = records[from];
  return { onLease: () => of({ queued: first?.type === 'turn.resumed' && first.queued === true }) };
}

/** The answers with which a turn was resumed. */
function answersOf({ records }: Recording, { from, to }: ReplayRun): Readonly<Record<string, unknown>> {
  const answers: Record<string, unknown> = {};
  for (const record of records.slice(from + 1, to)) {
    if (record.type !== 'turn.answered' || record.command !== undefined) break;
    answers[record.questionId] = record.answer;
  }
  return answers;
}

/** What is given counts before what the recording shows. */
function settingsOf({ records }: Recording, config: ReplayConfig) {
  const { shutdown: _, ...given } = config;
  const defined = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  return { ...recordedSettings(records), ...defined };
}

function controlsOf(turn: Turn, store: ReplayStore): Controls {
  return {
    pause(reason, commands) {
      if (commands.length === 0) turn.pause(reason);
      for (const id of commands) store.post(turn.taskId, { id, type: 'pause', reason });
    },
    steer(message, id) {
      if (id === undefined) turn.steer(message);
      else store.post(turn.taskId, { id, type: 'steer', message });
    },
    answer({ questionId, answer, command: id, message }) {
      if (id === undefined) turn.answer(questionId, answer);
      else store.post(turn.taskId, { id, type: 'answer', questionId, answer, ...(message && { message }) });
    },
    cancel(reason) {
      turn.cancel(reason).catch(() => {});
    },
  };
}

/** What the recorded turn failed with when its tools were asked for: before any call, and not at a limit. */
function toolFailure({ records, before }: Recording, run: ReplayRun): AgentLoopError | undefined {
  const index = run.from + 1;
  const record = index < run.to ? records[index] : undefined;
  const phase = before[index]?.phase;
  if (run.kind !== 'start' || record?.type !== 'turn.failed' || phase !== 'closed') return undefined;
  if (record.code === 'MAX_ITERATIONS' || record.code === 'POISON') return undefined;
  if (extensionCodes.has(record.code)) return undefined;
  return new AgentLoopError(record.code, record.message, { details: record.details });
}
