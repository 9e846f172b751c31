import type { AgentEvent } from '../core/events.ts';
import type { AssistantMessage, Message } from '../core/messages.ts';

/** `created` until the first turn is asked for; `busy` while turns of any context run. */
export type AgentState = 'created' | 'ready' | 'busy' | 'closed';

interface NoticeBase {
  readonly agentId: string;
}

/** What the user says reaches the conversation: at the start of a turn, as its extensions left it, before the first model call. */
export interface MessageSentEvent extends NoticeBase {
  readonly kind: 'message:sent';
  readonly taskId: string;
  readonly contextId: string;
  readonly messages: readonly Message[];
}

/** The final answer of a turn that completed, in the process that completed it. */
export interface MessageReceivedEvent extends NoticeBase {
  readonly kind: 'message:received';
  readonly taskId: string;
  readonly contextId: string;
  readonly message: AssistantMessage;
  readonly text: string;
}

export interface AgentStateEvent extends NoticeBase {
  readonly kind: 'agent:state';
  readonly state: AgentState;
}

/** What an agent tells its listeners: the events of all its turns, and those of its own. */
export type AgentNotice = AgentEvent | MessageSentEvent | MessageReceivedEvent | AgentStateEvent;

export type NoticeOf<K extends AgentNotice['kind']> = Extract<AgentNotice, { readonly kind: K }>;

export function isKind<K extends AgentNotice['kind']>(notice: AgentNotice, kind: K): notice is NoticeOf<K> {
  return notice.kind === kind;
}
