import type { LanguageModelV3Message } from '@ai-sdk/provider';
import { type AssistantMessage, type ToolCall, textOf } from '../../core/contracts/index.ts';
import { isJsonObject } from '../openai-wire/json-object.ts';
import { filePart, mediaOf } from './prompt-parts.ts';
import { digestOf, type VendorPart, type VendorParts } from './vendor-parts.ts';

export type AssistantPart = Extract<LanguageModelV3Message, { role: 'assistant' }>['content'][number];

export interface AssistantForm {
  /** How the vendor composed the message; absent where another one gave it. */
  readonly kept: VendorParts | undefined;
  /** The ids of its calls, as they are sent. */
  readonly ids: readonly string[];
  readonly sendReasoning: boolean;
}

/**
 * The parts of the model's own message: just as the vendor gave them, signatures and all, where it was this one; else its text, files
 * and calls. Changed text is sent without the vendor's metadata, changed reasoning not at all.
 */
export function assistantParts(message: AssistantMessage, form: AssistantForm): AssistantPart[] {
  const { kept, ids } = form;
  const parts = kept === undefined ? [] : new KeptParts(message, form, kept).all();
  const hasText = kept?.parts.some(({ type }) => type === 'text') === true;
  const media = kept === undefined ? mediaOf(message.content).map(filePart) : [];
  const text = textOf(message.content);
  if (text !== '' && !hasText) parts.unshift({ type: 'text', text });
  const placed = new Set(kept?.parts.flatMap((part) => (part.type === 'call' ? [part.index] : [])));
  const calls = (message.toolCalls ?? []).flatMap((call, index) =>
    placed.has(index) ? [] : [callPart(call, ids[index])],
  );
  return [...parts, ...media, ...calls];
}

/** Puts texts, calls and files of a message back where the vendor had them. */
class KeptParts {
  readonly #message: AssistantMessage;
  readonly #form: AssistantForm;
  readonly #kept: VendorParts;
  readonly #text: string;
  readonly #reasoning: string;
  #textTaken = 0;
  #reasoningTaken = 0;

  constructor(message: AssistantMessage, form: AssistantForm, kept: VendorParts) {
    this.#message = message;
    this.#form = form;
    this.#kept = kept;
    this.#text = textOf(message.content);
    this.#reasoning = message.reasoning ?? '';
  }

  all(): AssistantPart[] {
    const { parts, digests } = this.#kept;
    const textFits = digests.text === digestOf(this.#text);
    const reasoningFits = this.#form.sendReasoning && digests.reasoning === digestOf(this.#reasoning);
    return parts.flatMap((part) => {
      if (part.type === 'text' || part.type === 'reasoning') {
        if (part.type === 'text') return textFits ? this.#piece(part) : this.#changedText();
        return reasoningFits ? this.#thought(part) : [];
      }
      const restored = this.#other(part);
      return restored === undefined ? [] : [{ ...restored, ...optionsOf(part) }];
    });
  }

  #piece(part: VendorPart & { readonly length: number }): AssistantPart[] {
    const text = this.#text.slice(this.#textTaken, this.#textTaken + part.length);
    this.#textTaken += part.length;
    return text === '' ? [] : [{ type: 'text', text, ...optionsOf(part) }];
  }

  /** The whole text, once. */
  #changedText(): AssistantPart[] {
    const text = this.#text.slice(this.#textTaken);
    this.#textTaken = this.#text.length;
    return text === '' ? [] : [{ type: 'text', text }];
  }

  #thought(part: VendorPart & { readonly length: number }): AssistantPart[] {
    const text = this.#reasoning.slice(this.#reasoningTaken, this.#reasoningTaken + part.length);
    this.#reasoningTaken += part.length;
    return [{ type: 'reasoning', text, ...optionsOf(part) }];
  }

  #other(part: Exclude<VendorPart, { type: 'text' | 'reasoning' }>): AssistantPart | undefined {
    switch (part.type) {
      case 'call': {
        const call = this.#message.toolCalls?.[part.index];
        return call && callPart(call, this.#form.ids[part.index]);
      }
      case 'media': {
        const media = mediaOf(this.#message.content)[part.index];
        return media && filePart(media);
      }
      case 'vendor-text':
        return { type: 'text', text: part.text };
      case 'vendor-call':
        return {
          type: 'tool-call',
          toolCallId: part.id,
          toolName: part.name,
          input: inputOf(part.input),
          providerExecuted: true,
        };
      case 'vendor-result': {
        const value = JSON.parse(JSON.stringify(part.result));
        const output = { type: part.failed === true ? ('error-json' as const) : ('json' as const), value };
        return { type: 'tool-result', toolCallId: part.id, toolName: part.name, output };
      }
    }
  }
}

function optionsOf({ data }: VendorPart): { providerOptions?: NonNullable<VendorPart['data']> } {
  return data === undefined ? {} : { providerOptions: data };
}

function callPart({ id, function: called }: ToolCall, wireId: string | undefined): AssistantPart {
  return { type: 'tool-call', toolCallId: wireId ?? id, toolName: called.name, input: inputOf(called.arguments) };
}

/** Vendors expect an object: no arguments become `{}`, and anything but a JSON object is sent as `{ _raw: … }`. */
function inputOf(text: string): unknown {
  if (text.trim() === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    if (isJsonObject(value)) return value;
  } catch {}
  return { _raw: text };
}
