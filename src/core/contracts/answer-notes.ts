import type { AssistantMessage } from './messages.ts';

/** A source that an answer cites: a page, or a document of the request. */
export interface AnswerSource {
  readonly id: string;
  /** Whether it is a page or a document. */
  readonly sourceType: 'url' | 'document';
  /** Of a page. */
  readonly url?: string;
  readonly title?: string;
  /** Of a document. */
  readonly mediaType?: string;
  /** The name of a document. */
  readonly filename?: string;
}

/** A tool that ran at the vendor, such as a web search. It is not a call of the turn. */
export interface VendorCall {
  readonly id: string;
  readonly name: string;
  /** JSON text, as the model generated it. */
  readonly arguments: string;
  /** Absent if the vendor reports no failure. */
  readonly failed?: true;
}

/** Data that a provider returns with an answer, beside its message. */
export interface AnswerNotes {
  /** Absent where there are none. */
  readonly sources?: readonly AnswerSource[];
  readonly vendorCalls?: readonly VendorCall[];
}

/**
 * The notes in `metadata.sources` and `metadata.vendorCalls` of a message. Metadata may come from anywhere: invalid entries are
 * dropped.
 */
export function answerNotes(metadata: NonNullable<AssistantMessage['metadata']>): AnswerNotes {
  const sources = entriesOf(metadata['sources'], isSource);
  const vendorCalls = entriesOf(metadata['vendorCalls'], isVendorCall);
  return {
    ...(sources.length === 0 ? {} : { sources }),
    ...(vendorCalls.length === 0 ? {} : { vendorCalls }),
  };
}

function entriesOf<T>(value: unknown, isEntry: (entry: unknown) => entry is T): readonly T[] {
  return Array.isArray(value) ? value.filter(isEntry) : [];
}

function isSource(value: unknown): value is AnswerSource {
  if (
    !isObject(value) ||
    typeof value['id'] !== 'string' ||
    !areTexts(value, 'url', 'title', 'mediaType', 'filename')
  ) {
    return false;
  }
  return value['sourceType'] === 'url' ? typeof value['url'] === 'string' : value['sourceType'] === 'document';
}

function isVendorCall(value: unknown): value is VendorCall {
  if (!isObject(value) || (value['failed'] !== undefined && value['failed'] !== true)) return false;
  return ['id', 'name', 'arguments'].every((member) => typeof value[member] === 'string');
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

function areTexts(value: Readonly<Record<string, unknown>>, ...members: readonly string[]): boolean {
  return members.every((member) => value[member] === undefined || typeof value[member] === 'string');
}
