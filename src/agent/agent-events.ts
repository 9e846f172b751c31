import { filter, type MonoTypeOperatorFunction, map } from 'rxjs';
import {
  type AgentEvent,
  AgentLoopError,
  type AssistantMessage,
  type ExtensionEvent,
  type ExtensionEventKind,
  type Message,
  shownValue,
  type Tool,
} from '../core/contracts/index.ts';

/** `created` until the first turn starts; `busy` while turns of any context run. */
export type AgentState = 'created' | 'ready' | 'busy' | 'closed';

interface NoticeBase {
  readonly agentId: string;
}

/** The user's messages enter the conversation: at the start of a turn, after its extensions changed them, before the first model call. */
export interface MessageSentEvent extends NoticeBase {
  readonly kind: 'message:sent';
  readonly taskId: string;
  readonly contextId: string;
  readonly messages: readonly Message[];
}

/** The final answer of a completed turn; emitted by the process that completed it. */
export interface MessageReceivedEvent extends NoticeBase {
  readonly kind: 'message:received';
  readonly taskId: string;
  readonly contextId: string;
  readonly message: AssistantMessage;
  readonly text: string;
}

/** The state of the agent changed. */
export interface AgentStateEvent extends NoticeBase {
  readonly kind: 'agent:state';
  readonly state: AgentState;
}

/** The events of an agent: those of all its turns, and its own. */
export type AgentNotice<X extends Tool = Tool> =
  | AgentEvent<X>
  | MessageSentEvent
  | MessageReceivedEvent
  | AgentStateEvent;

/** The notices of one kind: what a listener of `agent.on(kind, …)` receives. */
export type NoticeOf<K extends AgentNotice['kind'], X extends Tool = Tool> =
  | Extract<AgentNotice<X>, { readonly kind: K }>
  | (K extends ExtensionEventKind ? ExtensionEvent<K> : never);

/** Every kind of event of a turn, but those of extensions. */
export const eventKinds: Readonly<Record<Exclude<AgentEvent['kind'], ExtensionEventKind>, true>> = {
  task: true,
  'status-update': true,
  'artifact-update': true,
  'internal:iteration-start': true,
  'internal:iteration-complete': true,
  'internal:llm-call': true,
  'internal:llm-response': true,
  'internal:llm-attempt-discarded': true,
  'internal:request-fitted': true,
  'internal:llm-warning': true,
  'internal:reasoning-delta': true,
  'internal:tool-call-delta': true,
  'internal:tool-start': true,
  'internal:tool-progress': true,
  'internal:tool-complete': true,
  'internal:checkpoint': true,
  'internal:paused': true,
  'internal:resumed': true,
  'internal:sub-agent': true,
  'internal:extension-error': true,
};

const noticeKinds: Readonly<Record<Exclude<AgentNotice['kind'], ExtensionEventKind>, true>> = {
  ...eventKinds,
  'message:sent': true,
  'message:received': true,
  'agent:state': true,
};

/** Throws `INVALID_INPUT` for an unknown kind, naming the known ones, and for an invalid listener. */
export function checkListener(owner: string, { kind, listener, kinds = noticeKinds }: GivenListener): void {
  const ofExtensions = kinds === noticeKinds;
  if (!Object.hasOwn(kinds, kind) && !(ofExtensions && /^internal:x\.[\w.-]+$/.test(kind))) {
    const all = [...Object.keys(kinds), ...(ofExtensions ? ['internal:x.<extension>'] : [])].join(', ');
    throw new AgentLoopError('INVALID_INPUT', `${owner}.on: there is no event ${shownValue(kind)}; events: ${all}.`);
  }
  if (typeof listener === 'function') return;
  throw new AgentLoopError(
    'INVALID_INPUT',
    `${owner}.on: the listener must be a function, not ${shownValue(listener)}.`,
  );
}

interface GivenListener {
  readonly kind: string;
  readonly listener: unknown;
  /** Default: those of an agent. */
  readonly kinds?: Readonly<Record<string, true>>;
}

export function isKind<K extends AgentNotice['kind'], X extends Tool>(
  notice: AgentNotice<X>,
  kind: K,
): notice is NoticeOf<K, X>;
export function isKind(notice: AgentNotice, kind: string): boolean {
  return notice.kind === kind;
}

const answers = /^answer-\d+(\.\d+)?$/;

/**
 * The events of a turn and of its sub-agents without intermediate text: no deltas, no responses. The last event, `status-update` with
 * `final: true`, has the final text in `status.message`. Unsubscribing unsubscribes from the turn.
 */
export function finalOnly(): MonoTypeOperatorFunction<AgentEvent> {
  return (events$) =>
    events$.pipe(
      filter((event) => !saysText(event)),
      map((event) => (event.kind === 'internal:sub-agent' ? { ...event, event: silent(event.event) } : silent(event))),
    );
}

/** The same event without the text of its response. */
function silent<E extends AgentEvent>(event: E): E {
  if (event.kind !== 'internal:iteration-complete') return event;
  const { message } = event.response;
  const calls = message.role === 'assistant' && message.toolCalls ? { toolCalls: message.toolCalls } : {};
  return { ...event, response: { ...event.response, message: { role: 'assistant', content: null, ...calls } } };
}

function saysText(event: AgentEvent): boolean {
  switch (event.kind) {
    case 'artifact-update':
      return answers.test(event.artifact.artifactId);
    case 'internal:llm-response':
    case 'internal:reasoning-delta':
    case 'internal:tool-call-delta':
      return true;
    case 'internal:sub-agent':
      return saysText(event.event);
    default:
      event.kind satisfies
        | 'task'
        | 'status-update'
        | 'internal:iteration-start'
        | 'internal:iteration-complete'
        | 'internal:llm-call'
        | 'internal:llm-attempt-discarded'
        | 'internal:request-fitted'
        | 'internal:llm-warning'
        | 'internal:tool-start'
        | 'internal:tool-progress'
        | 'internal:tool-complete'
        | 'internal:checkpoint'
        | 'internal:paused'
        | 'internal:resumed'
        | 'internal:extension-error'
        | `internal:x.${string}`;
      return false;
  }
}
