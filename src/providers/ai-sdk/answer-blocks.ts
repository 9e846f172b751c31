import type { LanguageModelV3File, LanguageModelV3ToolCall, LanguageModelV3ToolResult } from '@ai-sdk/provider';
import type { GrowingText } from '../../core/journal/index.ts';
import type { VendorData } from './vendor-parts.ts';

/** Text or reasoning received so far; or text for the vendor itself, which is not part of the answer. */
export interface TextBlock {
  readonly type: 'text' | 'reasoning' | 'vendor-text';
  readonly text: GrowingText;
  data: VendorData | undefined;
}

/** A call for us to run, as far as it came. */
export interface CallBlock {
  readonly type: 'call';
  /** Among the calls of the answer, from 0. */
  readonly index: number;
  readonly id: string;
  readonly name: string;
  arguments: string;
  data: VendorData | undefined;
}

/** A part of an answer, in the order in which the vendor gave them. */
export type AnswerBlock =
  | TextBlock
  | CallBlock
  | { readonly type: 'media'; readonly part: LanguageModelV3File; readonly data: VendorData | undefined }
  | { readonly type: 'vendor-call'; readonly part: LanguageModelV3ToolCall; readonly data: VendorData | undefined }
  | { readonly type: 'vendor-result'; readonly part: LanguageModelV3ToolResult; readonly data: VendorData | undefined };
