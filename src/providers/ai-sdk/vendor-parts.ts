import { createHash } from 'node:crypto';
import type { SharedV3ProviderMetadata } from '@ai-sdk/provider';
import type { AssistantMessage } from '../../core/contracts/index.ts';
import { isJsonObject } from '../openai-wire/json-object.ts';

/** What a vendor puts beside a part of its answer and wants back to the letter, e.g. a signature. JSON, by the vendor's name. */
export type VendorData = SharedV3ProviderMetadata;

/**
 * One part of an answer, in the order in which the vendor gave them. Texts are not repeated: `length` counts characters of the message's
 * content, or of its reasoning; `index` counts its calls, or the parts of its content other than text.
 */
export type VendorPart = { readonly data?: VendorData } & (
  | { readonly type: 'text'; readonly length: number }
  | { readonly type: 'reasoning'; readonly length: number }
  | { readonly type: 'vendor-text'; readonly text: string }
  | { readonly type: 'call'; readonly index: number }
  | { readonly type: 'media'; readonly index: number }
  | { readonly type: 'vendor-call'; readonly id: string; readonly name: string; readonly input: string }
  | {
      readonly type: 'vendor-result';
      readonly id: string;
      readonly name: string;
      readonly result: unknown;
      readonly failed?: true;
    }
);

/** How an answer was composed, kept in its message's metadata under {@link vendorPartsName}, so that it survives the journal. */
export interface VendorParts {
  /** The AI SDK's name of the provider that gave it, e.g. `anthropic.messages`. Nobody else can read it. */
  readonly provider: string;
  readonly parts: readonly VendorPart[];
  /** Of the text and of the reasoning: what was changed since, e.g. redacted, no longer fits its signatures. */
  readonly digests: { readonly text: string; readonly reasoning: string };
}

/** The member of a message's metadata that holds its {@link VendorParts}. */
export const vendorPartsName = 'aiSdk';

export function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 16);
}

/** The parts of a message that `provider` gave; `undefined` where it gave none, or where they are not of this form. */
export function vendorPartsOf(message: AssistantMessage, provider: string): VendorParts | undefined {
  const kept = message.metadata?.[vendorPartsName];
  return isVendorParts(kept) && kept.provider === provider ? kept : undefined;
}

/** Metadata of messages may come from anywhere. */
function isVendorParts(value: unknown): value is VendorParts {
  if (!isJsonObject(value) || typeof value['provider'] !== 'string' || !isJsonObject(value['digests'])) return false;
  return Array.isArray(value['parts']) && value['parts'].every(isVendorPart);
}

function isVendorPart(part: unknown): part is VendorPart {
  if (!isJsonObject(part) || (part['data'] !== undefined && !isVendorData(part['data']))) return false;
  switch (part['type']) {
    case 'text':
    case 'reasoning':
      return isCount(part['length']);
    case 'call':
    case 'media':
      return isCount(part['index']);
    case 'vendor-text':
      return isText(part['text']);
    case 'vendor-call':
      return isText(part['id']) && isText(part['name']) && isText(part['input']);
    case 'vendor-result':
      return isText(part['id']) && isText(part['name']) && part['result'] !== undefined;
    default:
      return false;
  }
}

/** An object of objects, as the AI SDK has its `providerOptions`. */
export function isVendorData(value: unknown): value is VendorData {
  return isJsonObject(value) && Object.values(value).every(isJsonObject);
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

function isText(value: unknown): boolean {
  return typeof value === 'string';
}
