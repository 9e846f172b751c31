import type {
  AssistantMessage,
  FinishReason,
  LLMCallParams,
  LLMChunk,
  LLMResponse,
  ToolCall,
  Usage,
} from '../core/contracts/index.ts';

export interface LLMStepCall {
  readonly name: string;
  /** An object, sent as JSON; a string, sent unchanged; or fragments of a string, streamed one by one. Default `{}`. */
  readonly arguments?: object | string | readonly string[];
  /** Default `call_<n>_<index>`, n counting the model calls from 1. */
  readonly id?: string;
}

/** What the model does in one call, in the order of the members. */
export interface LLMStep {
  /** Waited for before anything else; a rejection is the call's error. */
  readonly gate?: Promise<unknown>;
  /** Streamed before the text. */
  readonly reasoning?: string;
  /** One text, or several chunks. A promise among them is waited for at its place; its value is not used. */
  readonly text?: string | readonly (string | Promise<unknown>)[];
  readonly toolCalls?: readonly LLMStepCall[];
  /** Errors with this after what was streamed, instead of answering. */
  readonly error?: unknown;
  /** Stays silent after what was streamed, until unsubscribed or aborted. Default false. */
  readonly never?: boolean;
  /** Absent: the loop decides, by whether there are tool calls. */
  readonly finishReason?: FinishReason;
  readonly usage?: Usage;
}

/** A step, or a function that looks at the request and gives one. What it throws is the call's error. */
export type ScriptedLLMStep = LLMStep | ((params: LLMCallParams) => LLMStep);

/** What a step comes to: chunks to emit, promises to wait for, and how it ends. */
export type StepItem =
  | LLMChunk
  | Promise<unknown>
  | { readonly type: 'error'; readonly error: unknown }
  | { readonly type: 'never' };

/** The items of one step; `callNumber` is the number of the model call from 1. */
export function itemsOf(step: LLMStep, callNumber: number): readonly StepItem[] {
  const items: StepItem[] = [];
  if (step.gate !== undefined) items.push(step.gate);
  if (step.reasoning !== undefined) items.push({ type: 'reasoning', text: step.reasoning });
  for (const piece of piecesOf(step.text))
    items.push(typeof piece === 'string' ? { type: 'text', text: piece } : piece);
  for (const [index, call] of (step.toolCalls ?? []).entries()) items.push(...fragmentsOf(call, index, callNumber));
  if (step.error !== undefined) items.push({ type: 'error', error: step.error });
  else if (step.never === true) items.push({ type: 'never' });
  else items.push({ type: 'done', response: stepResponse(step, callNumber) });
  return items;
}

function piecesOf(text: LLMStep['text']): readonly (string | Promise<unknown>)[] {
  if (text === undefined) return [];
  return typeof text === 'string' ? [text] : text;
}

function argumentPieces(call: LLMStepCall): readonly string[] {
  if (typeof call.arguments === 'string') return [call.arguments];
  if (Array.isArray(call.arguments)) return call.arguments;
  return [JSON.stringify(call.arguments ?? {})];
}

function idOf(call: LLMStepCall, index: number, callNumber: number): string {
  return call.id ?? `call_${callNumber}_${index}`;
}

function fragmentsOf(call: LLMStepCall, index: number, callNumber: number): readonly LLMChunk[] {
  const [first = '', ...rest] = argumentPieces(call);
  return [
    { type: 'tool-call', index, id: idOf(call, index, callNumber), name: call.name, arguments: first },
    ...rest.map((fragment): LLMChunk => ({ type: 'tool-call', index, arguments: fragment })),
  ];
}

function stepResponse(step: LLMStep, callNumber: number): LLMResponse {
  const text = piecesOf(step.text).filter((piece) => typeof piece === 'string');
  const toolCalls = step.toolCalls?.map(
    (call, index): ToolCall => ({
      id: idOf(call, index, callNumber),
      type: 'function',
      function: { name: call.name, arguments: argumentPieces(call).join('') },
    }),
  );
  const message: AssistantMessage = {
    role: 'assistant',
    content: text.length === 0 ? null : text.join(''),
    ...(toolCalls && { toolCalls }),
    ...(step.reasoning !== undefined && { reasoning: step.reasoning }),
  };
  return {
    message,
    ...(step.finishReason && { finishReason: step.finishReason }),
    ...(step.usage && { usage: step.usage }),
  };
}
