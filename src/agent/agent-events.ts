import type { AgentEvent } from '../core/events.ts';
import type { AssistantMessage, Message } from '../core/messages.ts';
import type { Tool } from '../tools/interfaces.ts';

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
export type AgentNotice<X extends Tool = Tool> =
  | AgentEvent<X>
  | MessageSentEvent
  | MessageReceivedEvent
  | AgentStateEvent;

export type NoticeOf<K extends AgentNotice['kind'], X extends Tool = Tool> = Extract<
  AgentNotice<X>,
  { readonly kind: K }
>;

export function isKind<K extends AgentNotice['kind'], X extends Tool>(
  notice: AgentNotice<X>,
  kind: K,
): notice is NoticeOf<K, X>;
export function isKind(notice: AgentNotice, kind: string): boolean {
  return notice.kind === kind;
}
