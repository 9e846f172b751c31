import { answerNotes } from '../contracts/answer-notes.ts';
import {
  type A2AMessage,
  type A2APart,
  type AgentEvent,
  type CheckpointEvent,
  type IterationCompleteEvent,
  type PausedEvent,
  type StatusUpdateEvent,
  type TaskState,
  waitingState,
} from '../contracts/events.ts';
import { type AssistantMessage, addUsage, textOf, type Usage } from '../contracts/messages.ts';
import { optionsAfter } from './call-settings.ts';
import { type ExtensionRecord, eventsIn } from './extension-record.ts';
import { answerText, isRefusal, withheldAnswer } from './final-answer.ts';
import { asOpen, openQuestions, withChild } from './questions.ts';
import type {
  Hold,
  JournalRecord,
  LlmDone,
  LlmStart,
  ToolIntent,
  ToolResultRecord,
  TurnAnswered,
  TurnAsked,
  TurnCanceled,
  TurnDone,
  TurnFailed,
  TurnStarted,
  TurnSuspended,
} from './records.ts';
import { replacedInside, withoutReplaced } from './replaced-text.ts';
import { activeAt, type Changes, durationAt, type LoopState, openCallOf } from './state.ts';
import { unreadOf } from './turn-result.ts';

/** Inputs for the events of a record besides the preceding records. */
export interface ProjectionOptions {
  /** Whether the turn has a store, so that its records are checkpoints. */
  readonly checkpoints: boolean;
  /** The emitted text of the open attempt; `''` if none. */
  readonly shown: string;
  /** False for a suspension that is not the last record: the turn continued after it. */
  readonly last: boolean;
  /** Answers that were replaced later, in the end of a turn that is replayed: its events have what replaced them. */
  readonly replaced?: Changes['replaced'];
  /**
   * The projection that writes the events, if one is shared by all records of a turn.
   * @internal
   */
  readonly to?: Projection | undefined;
}

type Reason = Pick<StatusUpdateEvent, 'reason' | 'error' | 'questions' | 'usage' | 'durationMs' | 'unread'>;

function responseOf(
  { message, finishReason, usage, model }: LlmDone,
  replaced: Changes['replaced'],
): IterationCompleteEvent['response'] {
  return {
    message: replaced ? withoutReplaced(message, replaced) : message,
    finishReason,
    ...(usage && { usage }),
    ...(model !== undefined && { model }),
  };
}

type SharedMembers = 'taskId' | 'contextId' | 'agentId' | 'timestamp' | 'cursor';

/** An event without the members that all events of a record share. */
type OwnMembers<E extends AgentEvent = AgentEvent> = E extends AgentEvent ? Omit<E, SharedMembers> : never;

type Unplaced<E extends AgentEvent = AgentEvent> = E extends AgentEvent
  ? { -readonly [Name in keyof E]: E[Name] }
  : never;

/** For a record without events; never mutated. */
const noEvents: AgentEvent[] = [];

/** Writes the events of consecutive records, numbering their cursors. */
export class Projection {
  #events: AgentEvent[] = noEvents;
  #taskId = '';
  #contextId = '';
  #agentId = '';
  #timestamp = '';
  #at = 0;
  #place = '';
  #options: ProjectionOptions = { checkpoints: false, shown: '', last: true };

  /** Starts the events of `record`, in a new array. */
  begin(
    { taskId, contextId }: { readonly taskId: string; readonly contextId: string },
    agentId: string,
    { record, options }: { readonly record: JournalRecord; readonly options: ProjectionOptions },
  ): void {
    this.#events = noEvents;
    this.#taskId = taskId;
    this.#contextId = contextId;
    this.#agentId = agentId;
    this.#timestamp = isoTime(record.at);
    this.#at = record.at;
    this.#place = `${record.seq}-${record.epoch}.`;
    this.#options = options;
  }

  started(record: TurnStarted): readonly AgentEvent[] {
    this.#add({
      kind: 'task',
      id: record.taskId,
      status: { state: 'submitted', timestamp: this.#timestamp },
      ...(record.metadata ? { metadata: record.metadata } : {}),
    });
    this.#status('working', false, {});
    this.#checkpoint('before-iteration', 0);
    return this.#events;
  }

  resumed(): readonly AgentEvent[] {
    this.#add({ kind: 'internal:resumed' });
    this.#status('working', false, {});
    return this.#events;
  }

  llmStarted(before: LoopState, record: LlmStart): readonly AgentEvent[] {
    const { iteration, attempt, summary } = record;
    if (attempt === 1) {
      const kind = 'internal:iteration-start';
      this.#add(summary ? { kind, iteration, summary } : { kind, iteration });
    } else {
      this.#add({ kind: 'internal:llm-attempt-discarded', iteration, attempt: attempt - 1 });
    }
    this.#add({
      kind: 'internal:llm-call',
      iteration,
      attempt,
      options: summary ? { ...optionsAfter(before.call, record), tools: [] } : optionsAfter(before.call, record),
    });
    return this.#events;
  }

  llmDone(before: LoopState, record: LlmDone): readonly AgentEvent[] {
    const text = textOf(record.message.content);
    this.#lastChunk(record.iteration, text);
    this.#add({
      kind: 'internal:llm-response',
      iteration: record.iteration,
      text,
      finishReason: record.finishReason,
      ...(record.finishWord !== undefined && { finishWord: record.finishWord }),
      ...(record.calls.length > 0 ? { toolCalls: record.calls } : {}),
      ...(record.message.reasoning ? { reasoning: record.message.reasoning } : {}),
      ...(record.usage ? { usage: record.usage } : {}),
      ...(record.model ? { model: record.model } : {}),
      ...(record.message.metadata ? answerNotes(record.message.metadata) : {}),
      durationMs: Math.max(0, this.#at - (before.call?.startedAt ?? this.#at)),
    });
    this.#checkpoint('after-llm', record.iteration);
    return this.#events;
  }

  toolStarted(before: LoopState, record: ToolIntent): readonly AgentEvent[] {
    const pending = openCallOf(before, record.callId);
    if (!pending) return [];
    this.#add({
      kind: 'internal:tool-start',
      iteration: before.iteration,
      callId: record.callId,
      toolName: pending.call.function.name,
      arguments: record.arguments,
      attempt: record.attempt,
    });
    return this.#events;
  }

  toolDone(before: LoopState, record: ToolResultRecord): readonly AgentEvent[] {
    const pending = openCallOf(before, record.callId);
    if (!pending) return [];
    const { arguments: given } = pending.intent ?? record;
    const { replaced } = this.#options;
    this.#add({
      kind: 'internal:tool-complete',
      iteration: before.iteration,
      callId: record.callId,
      toolName: pending.call.function.name,
      arguments: replaced ? replacedInside(given, replaced) : given,
      content: record.content,
      success: record.success,
      durationMs: record.durationMs,
      ...(record.error ? { error: record.error } : {}),
    });
    return before.openCalls > 1 ? this.#events : this.iterationOver(before);
  }

  iterationOver(before: LoopState): readonly AgentEvent[] {
    this.#checkpoint('before-iteration', before.iteration);
    this.#iterationComplete(before);
    return this.#events;
  }

  #iterationComplete(before: LoopState): void {
    const { iteration, call, lastResponse } = before;
    if (!lastResponse) return;
    const now = activeAt(before, this.#at);
    this.#add({
      kind: 'internal:iteration-complete',
      iteration,
      response: responseOf(lastResponse, before.changes.replaced ?? this.#options.replaced),
      durationMs: Math.max(0, now - (call?.began ?? now)),
    });
  }

  /** Messages after the last response end its iteration and continue the turn. */
  extended(before: LoopState, record: ExtensionRecord): readonly AgentEvent[] {
    if (record.effects?.withhold) this.#withheld(before);
    if (before.phase === 'answered' && record.effects?.messages?.length) this.iterationOver(before);
    for (const { name, payload, label } of eventsIn(record)) {
      this.#add({
        kind: `internal:${record.type}${name === undefined ? '' : `.${name}`}`,
        iteration: before.iteration,
        extension: record.type.slice('x.'.length),
        ...(payload === undefined ? {} : { payload }),
        ...(label === undefined ? {} : { label }),
      });
    }
    return this.#events;
  }

  asked(before: LoopState, { question }: TurnAsked): readonly AgentEvent[] {
    const questions = [...openQuestions(before), withChild(question, before)];
    this.#status(waitingState(questions), false, { questions });
    return this.#events;
  }

  /** If a suspended turn waits for other answers, this is still the end of its stream. */
  answered(before: LoopState, { questionId }: TurnAnswered): readonly AgentEvent[] {
    const questions = openQuestions(before).filter(({ id }) => id !== questionId);
    const final = before.outcome !== undefined && this.#options.last;
    if (questions.length === 0) this.#status('working', false, {});
    else this.#status(waitingState(questions), final, { questions, ...(final && this.#totals(before, undefined)) });
    return this.#events;
  }

  suspended(before: LoopState, record: TurnSuspended): readonly AgentEvent[] {
    this.#add({
      kind: 'internal:paused',
      reason: record.reason,
      ...shownHold(record.hold),
    });
    const final = this.#options.last && !record.hold;
    const { reason } = record;
    const questions = asOpen(before, record.questions);
    this.#status(record.state, final, { reason, questions, ...(final && this.#totals(before, record.usage)) });
    return this.#events;
  }

  /** Artifacts contain the answer, also if the turn did not end with the model's last text. */
  done(before: LoopState, { reason, text, value, usage }: TurnDone): readonly AgentEvent[] {
    const { iteration, lastResponse } = before;
    const message = lastResponse?.iteration === iteration ? lastResponse.message : undefined;
    if (text !== '' && text !== textOf(message?.content)) {
      const said = message && withoutReplaced(message, before.changes.replaced ?? this.#options.replaced);
      this.#artifact(finalArtifactId(iteration, said, text), { kind: 'text', text }, false);
    }
    if (text === '' && value !== undefined) this.#artifact(outputId, partOf(value), false);
    return this.#end(before, 'completed', { reason, ...this.#totals(before, usage) }, text);
  }

  failed(before: LoopState, record: TurnFailed): readonly AgentEvent[] {
    const { reason, code, message, details, usage } = record;
    const error = { code, message, ...(details && { details }) };
    if (isRefusal(code, before)) this.#withheld(before);
    return this.#end(before, 'failed', { reason, error, ...this.#totals(before, usage) }, message);
  }

  canceled(before: LoopState, { reason, usage }: TurnCanceled): readonly AgentEvent[] {
    return this.#end(before, 'canceled', { reason, ...this.#totals(before, usage) });
  }

  /** Replaces the streamed text of an answer that was refused. */
  #withheld(before: LoopState): void {
    const { iteration, lastResponse } = before;
    const said = lastResponse?.iteration === iteration ? textOf(lastResponse.message.content) : '';
    if (said === '' || said !== answerText(before)) return;
    this.#artifact(artifactId(iteration), { kind: 'text', text: withheldAnswer }, false);
  }

  /** The total usage and duration of the turn, including its last record. */
  #totals(before: LoopState, used: Usage | undefined): Required<Pick<StatusUpdateEvent, 'usage' | 'durationMs'>> {
    const usage = used ? addUsage(before.usage, used) : before.usage;
    return { usage, durationMs: durationAt(before, this.#at) };
  }

  #end(before: LoopState, state: TaskState, why: Omit<Reason, 'questions'>, text = ''): readonly AgentEvent[] {
    this.#checkpoint('end', before.iteration);
    if (before.phase === 'answered') this.#iterationComplete(before);
    this.#status(state, true, before.changes.steered === undefined ? why : { ...why, ...unreadOf(before, true) }, text);
    return this.#events;
  }

  /** Adds the shared members to an event. Assigned, because a spread takes twice as long. */
  #add(event: OwnMembers): void;
  #add(event: Unplaced): void {
    event.taskId = this.#taskId;
    event.contextId = this.#contextId;
    event.agentId = this.#agentId;
    event.timestamp = this.#timestamp;
    event.cursor = this.#place + (this.#events.length + 1);
    // A push to an empty array allocates 17 slots.
    if (this.#events.length === 0) this.#events = [event];
    else this.#events.push(event);
  }

  #lastChunk(iteration: number, text: string): void {
    const { shown } = this.#options;
    if (text === '' && shown === '') return;
    const append = shown !== '' && text.startsWith(shown);
    const rest = append ? text.slice(shown.length) : text;
    this.#artifact(artifactId(iteration), { kind: 'text', text: rest }, append);
  }

  /** Emits a whole artifact, or with `append` its rest. */
  #artifact(id: string, part: A2APart, append: boolean): void {
    this.#add({
      kind: 'artifact-update',
      artifact: { artifactId: id, parts: [part] },
      append,
      lastChunk: true,
    });
  }

  #checkpoint(phase: CheckpointEvent['phase'], iteration: number): void {
    if (!this.#options.checkpoints) return;
    this.#add({
      kind: 'internal:checkpoint',
      iteration,
      phase,
    });
  }

  #status(state: TaskState, final: boolean, why: Reason, text = ''): void {
    const status = { state, timestamp: this.#timestamp, ...(text === '' ? {} : { message: this.#message(text) }) };
    this.#add({
      kind: 'status-update',
      status,
      final,
      ...why,
    });
  }

  #message(text: string): A2AMessage {
    return {
      kind: 'message',
      role: 'agent',
      messageId: `${this.#taskId}:final`,
      parts: [{ kind: 'text', text }],
      taskId: this.#taskId,
      contextId: this.#contextId,
    };
  }
}

function shownHold(hold: Hold | undefined): Pick<PausedEvent, 'until' | 'attempt' | 'error'> {
  if (!hold) return {};
  const { until, ...rest } = hold;
  return until === undefined ? rest : { until: new Date(until).toISOString(), ...rest };
}

/** The name of the artifact that contains the value of a turn. */
export const outputId = 'output';

/** A value in A2A's form: objects as data, everything else as JSON text. */
function partOf(value: unknown): A2APart {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { kind: 'text', text: JSON.stringify(value) };
  return { kind: 'data', data: Object.fromEntries(Object.entries(value)) };
}

/** The name of the artifact that contains an iteration's text. */
export function artifactId(iteration: number): string {
  return `answer-${iteration}`;
}

/**
 * The name of the artifact that contains the final text of a turn. As in the history, it replaces an answer, and follows text beside calls.
 * `last`: the message of the iteration, as it is shown.
 */
export function finalArtifactId(iteration: number, last: AssistantMessage | undefined, text: string): string {
  const said = textOf(last?.content);
  const follows = said !== '' && said !== text && last?.toolCalls?.length;
  return artifactId(follows ? iteration + 1 : iteration);
}

let lastMs = Number.NaN;
let lastIso = '';

/** ISO 8601 of a time in milliseconds. Events come in bursts within one millisecond, so the last result is cached. */
export function isoTime(ms: number): string {
  if (ms !== lastMs) {
    lastIso = new Date(ms).toISOString();
    lastMs = ms;
  }
  return lastIso;
}
