import { type AgentEvent, isSuspended, type Usage } from '../core/contracts/index.ts';
import type { AgUiEvent, AgUiInterrupt, AgUiMessage, AgUiUsage } from './ag-ui-types.ts';
import type { ShownEnd, ShownQuestion, ShownStep, VoidStep } from './shown-steps.ts';
import { assertStreamOptions, isRetryableCode, type Shown, type StreamOptions, shownOf } from './stream-options.ts';
import { TurnReader } from './turn-reader.ts';

/** Options of the events of AG-UI: the ids that the client named, and what it has already. */
export interface AgUiOptions extends StreamOptions {
  /** The thread and the run that the client named. */
  readonly threadId: string;
  /** The run that the client named. */
  readonly runId: string;
  /** What the client has of the conversation: a snapshot of the messages, where text is void, begins with it. Default: none. */
  readonly messages?: readonly AgUiMessage[] | undefined;
}

export const agUiNames = { threadId: true, runId: true, messages: true } as const;

/**
 * The events of AG-UI 1.0 for the events of one turn: a function for one stream, called with each event in order. Pure. Each start has its end, and the last event
 * is `RUN_FINISHED` or `RUN_ERROR`. Ids of calls, messages and interrupts are `<taskId>/<id>`. Holds the messages of the run. Errors:
 * `INVALID_CONFIG`.
 */
export function agUiEvents(options: AgUiOptions): (event: AgentEvent) => readonly AgUiEvent[] {
  assertStreamOptions('agUiEvents', options, agUiNames);
  const encoder = new AgUiEncoder(options);
  return (event) => encoder.encode(event);
}

/** A message of the run, which grows. */
type Growing = { -readonly [Name in keyof AgUiMessage]: AgUiMessage[Name] };

export class AgUiEncoder {
  readonly #shown: Shown;
  readonly #options: AgUiOptions;
  readonly #reader: TurnReader;
  /** The messages of the run, by id. */
  readonly #messages = new Map<string, Growing>();
  readonly #openTexts = new Set<string>();
  readonly #openCalls = new Set<string>();
  readonly #agents = new Set<string>();
  #isStarted = false;
  #isStepOpen = false;
  #iteration = 0;
  #taskId = '';

  constructor(options: AgUiOptions) {
    this.#options = options;
    this.#shown = shownOf(options);
    this.#reader = new TurnReader(this.#shown);
  }

  encode(event: AgentEvent): readonly AgUiEvent[] {
    return this.#started(this.#reader.read(event).flatMap((step) => this.#events(step)));
  }

  lost(error: unknown): readonly AgUiEvent[] {
    return this.#started(this.#reader.lost(error).flatMap((step) => this.#events(step)));
  }

  #started(events: readonly AgUiEvent[]): readonly AgUiEvent[] {
    if (this.#isStarted || events.length === 0) return events;
    this.#isStarted = true;
    const { threadId, runId } = this.#options;
    return [{ type: 'RUN_STARTED', threadId, runId }, ...events];
  }

  #events(step: ShownStep): readonly AgUiEvent[] {
    switch (step.type) {
      case 'begin':
        this.#taskId = step.taskId;
        return [{ type: 'CUSTOM', name: 'millrace.task', value: { taskId: step.taskId } }];
      case 'iteration':
        this.#iteration = step.iteration;
        this.#isStepOpen = true;
        return [{ type: 'STEP_STARTED', stepName: `${step.iteration}` }];
      case 'iteration-end':
        return [...this.#endCalls(), ...this.#endStep(step.iteration)];
      case 'text':
        return this.#text(step.id, step.text);
      case 'text-end':
        return this.#openTexts.delete(step.id) ? [{ type: 'TEXT_MESSAGE_END', messageId: step.id }] : [];
      case 'reasoning':
        return this.#reasoning(step.id, step.text);
      case 'reasoning-end':
        return this.#openTexts.delete(step.id) ? reasoningEnd(step.id) : [];
      case 'call':
        return this.#call(step.id, step.name);
      case 'call-input':
        return this.#input(step.id, step.text);
      case 'call-ready':
        return this.#ready(step.id, step.name, step.input);
      case 'call-update':
        return [{ type: 'CUSTOM', name: 'millrace.progress', value: { toolCallId: step.id, update: step.update } }];
      case 'call-end':
        return this.#result(step);
      case 'void':
        return this.#void(step);
      case 'question':
        return [];
      case 'artifact': {
        const { id: messageId, type: _, append, recorded: __, ...content } = step;
        if (append)
          return [{ type: 'CUSTOM', name: 'millrace.artifact', value: { id: messageId, ...content, append } }];
        this.#messages.set(messageId, { id: messageId, role: 'activity', activityType: 'millrace.artifact', content });
        return [{ type: 'ACTIVITY_SNAPSHOT', messageId, activityType: 'millrace.artifact', content, replace: true }];
      }
      case 'agent':
        return this.#agent(step);
      case 'end':
        return [...this.#endOpen(), ...this.#end(step)];
    }
  }

  #text(messageId: string, delta: string): readonly AgUiEvent[] {
    const content: AgUiEvent = { type: 'TEXT_MESSAGE_CONTENT', messageId, delta };
    if (this.#grow(messageId, 'assistant', delta)) return [content];
    return [{ type: 'TEXT_MESSAGE_START', messageId, role: 'assistant' }, content];
  }

  #reasoning(messageId: string, delta: string): readonly AgUiEvent[] {
    const content: AgUiEvent = { type: 'REASONING_MESSAGE_CONTENT', messageId, delta };
    if (this.#grow(messageId, 'reasoning', delta)) return [content];
    const start: AgUiEvent = { type: 'REASONING_MESSAGE_START', messageId, role: 'reasoning' };
    return [{ type: 'REASONING_START', messageId }, start, content];
  }

  /** False for the first piece of a message. */
  #grow(id: string, role: string, text: string): boolean {
    const known = this.#messages.get(id);
    this.#openTexts.add(id);
    if (known) known.content = `${known.content}${text}`;
    else this.#messages.set(id, { id, role, content: text });
    return known !== undefined;
  }

  /** The message that holds the calls of the open iteration. */
  get #parentId(): string {
    return `${this.#taskId}/calls-${this.#iteration}`;
  }

  #call(toolCallId: string, toolCallName: string): readonly AgUiEvent[] {
    const parentMessageId = this.#parentId;
    const calls = this.#messages.get(parentMessageId)?.toolCalls ?? [];
    const call = { id: toolCallId, type: 'function' as const, function: { name: toolCallName, arguments: '' } };
    this.#messages.set(parentMessageId, { id: parentMessageId, role: 'assistant', toolCalls: [...calls, call] });
    this.#openCalls.add(toolCallId);
    return [{ type: 'TOOL_CALL_START', toolCallId, toolCallName, parentMessageId }];
  }

  #input(toolCallId: string, delta: string): readonly AgUiEvent[] {
    const message = this.#messages.get(this.#parentId);
    if (!message || !this.#openCalls.has(toolCallId) || delta === '') return [];
    message.toolCalls = (message.toolCalls ?? []).map((call) =>
      call.id === toolCallId
        ? { ...call, function: { ...call.function, arguments: call.function.arguments + delta } }
        : call,
    );
    return [{ type: 'TOOL_CALL_ARGS', toolCallId, delta }];
  }

  /** Arguments that were streamed stand; those of a replay come as a whole. */
  #ready(toolCallId: string, name: string, input: unknown): readonly AgUiEvent[] {
    const start = this.#openCalls.has(toolCallId) ? [] : this.#call(toolCallId, name);
    const known = this.#messages.get(this.#parentId)?.toolCalls ?? [];
    const isStreamed = known.some(({ id, function: { arguments: text } }) => id === toolCallId && text !== '');
    const whole = isStreamed || input === undefined ? [] : this.#input(toolCallId, JSON.stringify(input));
    this.#openCalls.delete(toolCallId);
    return [...start, ...whole, { type: 'TOOL_CALL_END', toolCallId }];
  }

  #result(step: Extract<ShownStep, { type: 'call-end' }>): readonly AgUiEvent[] {
    const { id: toolCallId, code, output } = step;
    const messageId = `${toolCallId}/result`;
    const error = code === undefined ? {} : { error: this.#shown.errorText({ code }) };
    const content =
      error.error ?? (typeof output === 'string' ? output : output === undefined ? '' : JSON.stringify(output));
    this.#messages.set(messageId, { id: messageId, role: 'tool', toolCallId, content, ...error });
    return [{ type: 'TOOL_CALL_RESULT', messageId, toolCallId, content, role: 'tool' }];
  }

  /** The same id would append to the void text: a snapshot without it takes it back, and what stands has another id. */
  #void({ texts, calls, fresh }: VoidStep): readonly AgUiEvent[] {
    if (texts.length === 0 && calls.length === 0) return [];
    const ends: AgUiEvent[] = [];
    for (const id of texts) {
      const isReasoning = this.#messages.get(id)?.role === 'reasoning';
      if (this.#openTexts.delete(id)) ends.push(...(isReasoning ? reasoningEnd(id) : textEnd(id)));
      this.#messages.delete(id);
    }
    for (const toolCallId of calls) {
      if (this.#openCalls.delete(toolCallId)) ends.push({ type: 'TOOL_CALL_END', toolCallId });
      for (const [id, message] of this.#messages) {
        if (!message.toolCalls?.some((call) => call.id === toolCallId)) continue;
        message.toolCalls = message.toolCalls.filter((call) => call.id !== toolCallId);
        if (message.toolCalls.length === 0) this.#messages.delete(id);
      }
    }
    const messages = [...(this.#options.messages ?? []), ...this.#messages.values()].map((message) => ({ ...message }));
    return [...ends, { type: 'MESSAGES_SNAPSHOT', messages }, ...fresh.flatMap((step) => this.#events(step))];
  }

  #agent(step: Extract<ShownStep, { type: 'agent' }>): readonly AgUiEvent[] {
    const { id: subagentRunId, agentId: name, callId, parent, state, text } = step;
    if (text !== undefined) return [{ type: 'CUSTOM', name: 'millrace.agent', value: { subagentRunId, name, text } }];
    if (state === 'working') {
      if (this.#agents.has(subagentRunId)) return [];
      this.#agents.add(subagentRunId);
      const above = parent !== undefined && this.#agents.has(parent) ? { parentSubagentRunId: parent } : {};
      return [{ type: 'SUBAGENT_STARTED', subagentRunId, name, parentToolCallId: callId, ...above }];
    }
    if (state === undefined || !this.#agents.delete(subagentRunId)) return [];
    if (state === 'completed') return [{ type: 'SUBAGENT_FINISHED', subagentRunId, outcome: { type: 'success' } }];
    if (isSuspended(state)) return [{ type: 'SUBAGENT_FINISHED', subagentRunId, outcome: { type: 'suspended' } }];
    const code = state === 'canceled' ? 'CANCELED' : 'TOOL_FAILED';
    return [{ type: 'SUBAGENT_ERROR', subagentRunId, message: this.#shown.errorText({ code }), code }];
  }

  #endStep(iteration: number): readonly AgUiEvent[] {
    if (!this.#isStepOpen) return [];
    this.#isStepOpen = false;
    return [{ type: 'STEP_FINISHED', stepName: `${iteration}` }];
  }

  #endCalls(): readonly AgUiEvent[] {
    const ends = [...this.#openCalls].map((toolCallId): AgUiEvent => ({ type: 'TOOL_CALL_END', toolCallId }));
    this.#openCalls.clear();
    return ends;
  }

  #endOpen(): readonly AgUiEvent[] {
    const agents = [...this.#agents].map(
      (subagentRunId): AgUiEvent => ({ type: 'SUBAGENT_FINISHED', subagentRunId, outcome: { type: 'suspended' } }),
    );
    this.#agents.clear();
    return [...this.#endCalls(), ...agents];
  }

  #end({ taskId, state, reason, code, usage, questions, cursor, unread }: ShownEnd): readonly AgUiEvent[] {
    const used = usage ? { usage: [usageOf(usage)] } : {};
    if (code !== undefined) {
      const metadata = state === 'working' ? { metadata: { taskId, retryable: isRetryableCode(code) } } : {};
      return [{ type: 'RUN_ERROR', message: this.#shown.errorText({ code }), code, ...metadata, ...used }];
    }
    const { threadId, runId } = this.#options;
    const why = {
      ...(reason === undefined ? {} : { reason }),
      ...(cursor ? { cursor } : {}),
      ...(unread && { unread }),
    };
    const result = { taskId, state, ...why };
    const outcome =
      state === 'canceled'
        ? { type: 'cancelled' as const }
        : isSuspended(state)
          ? { type: 'interrupt' as const, interrupts: questions.map(interruptOf) }
          : { type: 'success' as const };
    return [{ type: 'RUN_FINISHED', threadId, runId, outcome, result, ...used }];
  }
}

function textEnd(messageId: string): readonly AgUiEvent[] {
  return [{ type: 'TEXT_MESSAGE_END', messageId }];
}

function reasoningEnd(messageId: string): readonly AgUiEvent[] {
  return [
    { type: 'REASONING_MESSAGE_END', messageId },
    { type: 'REASONING_END', messageId },
  ];
}

const approvalSchema = {
  type: 'object',
  properties: { approved: { type: 'boolean' }, reason: { type: 'string' } },
  required: ['approved'],
} as const;

function interruptOf({ id, callId, kind, toolName, prompt, data }: ShownQuestion): AgUiInterrupt {
  const metadata = { ...(toolName === undefined ? {} : { toolName }), ...(data === undefined ? {} : { data }) };
  return {
    id,
    reason: kind,
    toolCallId: callId,
    ...(prompt === undefined ? {} : { message: prompt }),
    ...(kind === 'approval' ? { responseSchema: approvalSchema } : {}),
    ...(Object.keys(metadata).length > 0 ? { metadata } : {}),
  };
}

/** Of the run, not of the thread. */
function usageOf(usage: Usage): AgUiUsage {
  const { promptTokens: inputTokens, completionTokens: outputTokens, totalTokens } = usage;
  const { reasoningTokens, cachedTokens } = usage;
  return {
    inputTokens,
    outputTokens,
    totalTokens,
    ...(reasoningTokens === undefined ? {} : { reasoningTokens }),
    ...(cachedTokens === undefined ? {} : { cachedInputTokens: cachedTokens }),
  };
}
