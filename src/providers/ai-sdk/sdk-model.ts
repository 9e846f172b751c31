/**
 * The language model that this provider speaks to: the part of the AI SDK's interface v3 that it uses, in types of our own, so that published
 * declarations compile with any version of `@ai-sdk/provider` and with none. Parts of type `custom` are of v4 alone; `model-interface.ts` leaves
 * them out for a model of v3.
 *
 * Source: the language model specification v3 of `@ai-sdk/provider`.
 */
export interface SdkModel {
  readonly provider: string;
  readonly modelId: string;
  /** Where its requests go, if it lets that be known. */
  readonly address?: string;
  doGenerate(options: SdkCallOptions): PromiseLike<SdkGenerated>;
  doStream(options: SdkCallOptions): PromiseLike<SdkStreamed>;
}

/** JSON, with the types of the AI SDK. */
export type SdkJson = null | string | number | boolean | SdkJsonObject | SdkJson[];

/** An object of JSON, with the types of the AI SDK. */
export interface SdkJsonObject {
  [member: string]: SdkJson | undefined;
}

/** What a vendor puts beside a part of its answer and wants back to the letter, e.g. a signature. JSON, by the vendor's name. */
export type VendorData = Record<string, SdkJsonObject>;

interface WithOptions {
  providerOptions?: VendorData;
}

interface WithMetadata {
  providerMetadata?: VendorData;
}

export interface SdkCallOptions extends WithOptions {
  prompt: SdkMessage[];
  maxOutputTokens?: number;
  temperature?: number;
  topP?: number;
  stopSequences?: string[];
  seed?: number;
  responseFormat?: { type: 'json'; schema?: SdkSchema; name?: string };
  tools?: (SdkFunctionTool | SdkProviderTool)[];
  toolChoice?: SdkToolChoice;
  includeRawChunks?: boolean;
  abortSignal?: AbortSignal;
  headers?: Record<string, string | undefined>;
}

/** A JSON schema; whatever is in it is passed on. */
export type SdkSchema = Record<string, unknown>;

export interface SdkFunctionTool {
  type: 'function';
  name: string;
  description?: string;
  inputSchema: SdkSchema;
  strict?: boolean;
}

/** A tool that runs at the vendor. */
export interface SdkProviderTool {
  type: 'provider';
  id: string;
  name: string;
  args: Record<string, unknown>;
}

export type SdkToolChoice = { type: 'auto' | 'none' | 'required' } | { type: 'tool'; toolName: string };

export type SdkMessage = (
  | { role: 'system'; content: string }
  | { role: 'user'; content: SdkUserPart[] }
  | { role: 'assistant'; content: SdkAssistantPart[] }
  | { role: 'tool'; content: SdkResultPart[] }
) &
  WithOptions;

export type SdkUserPart = SdkTextPart | SdkFilePart;

export type SdkAssistantPart =
  | SdkTextPart
  | SdkFilePart
  | SdkCustomPart
  | SdkResultPart
  | ({ type: 'reasoning'; text: string } & WithOptions)
  | ({
      type: 'tool-call';
      toolCallId: string;
      toolName: string;
      input: unknown;
      providerExecuted?: boolean;
    } & WithOptions);

interface SdkTextPart extends WithOptions {
  type: 'text';
  text: string;
}

export interface SdkFilePart extends WithOptions {
  type: 'file';
  filename?: string;
  /** Base64, or an address. */
  data: string | URL;
  mediaType: string;
}

/** What a vendor said for itself: of v4 alone. */
export interface SdkCustomPart extends WithOptions {
  type: 'custom';
  kind: string;
}

export interface SdkResultPart extends WithOptions {
  type: 'tool-result';
  toolCallId: string;
  toolName: string;
  output: SdkOutput;
}

export type SdkOutput =
  | { type: 'text' | 'error-text'; value: string }
  | { type: 'json' | 'error-json'; value: SdkJson }
  | { type: 'content'; value: SdkOutputPart[] };

export type SdkOutputPart =
  | { type: 'text'; text: string }
  | { type: 'file-data'; data: string; mediaType: string; filename?: string }
  | { type: 'image-data'; data: string; mediaType: string }
  | { type: 'file-url'; url: string; mediaType?: string }
  | { type: 'image-url'; url: string };

export interface SdkGenerated {
  content: SdkContent[];
  finishReason: SdkFinishReason;
  usage: SdkUsage;
  response?: SdkHead;
  warnings: object[];
}

export interface SdkStreamed {
  stream: ReadableStream<SdkStreamPart>;
  response?: { headers?: Record<string, string> };
}

/** What stands beside an answer. */
export interface SdkHead {
  id?: string;
  modelId?: string;
}

export interface SdkFinishReason {
  /** `interrupted` is of v4 alone. */
  unified: 'stop' | 'length' | 'content-filter' | 'tool-calls' | 'error' | 'interrupted' | 'other';
  raw: string | undefined;
}

export interface SdkUsage {
  inputTokens: {
    total: number | undefined;
    cacheRead: number | undefined;
    cacheWrite: number | undefined;
  };
  outputTokens: { total: number | undefined; reasoning: number | undefined };
  raw?: SdkJsonObject;
}

export type SdkContent = ({ type: 'text' | 'reasoning'; text: string } & WithMetadata) | SdkWholePart;

/** A part that comes at once, streamed or not. */
export type SdkWholePart =
  | SdkToolCall
  | SdkToolResult
  | SdkFile
  | SdkSource
  | SdkCustom
  | ({ type: 'tool-approval-request' } & WithMetadata);

export interface SdkToolCall extends WithMetadata {
  type: 'tool-call';
  toolCallId: string;
  toolName: string;
  input: string;
  providerExecuted?: boolean;
}

export interface SdkToolResult extends WithMetadata {
  type: 'tool-result';
  toolCallId: string;
  toolName: string;
  result: SdkJson;
  isError?: boolean;
  preliminary?: boolean;
}

export interface SdkFile extends WithMetadata {
  type: 'file';
  mediaType: string;
  /** Base64, bytes, or, of v4 alone, an address. */
  data: string | Uint8Array | URL;
}

export type SdkSource = { type: 'source'; id: string } & WithMetadata &
  (
    | { sourceType: 'url'; url: string; title?: string }
    | { sourceType: 'document'; mediaType: string; title: string; filename?: string }
  );

interface SdkCustom extends WithMetadata {
  type: 'custom';
  kind: string;
}

export type SdkStreamPart =
  | ({ type: 'text-start' | 'reasoning-start' | 'text-end' | 'reasoning-end'; id: string } & WithMetadata)
  | ({ type: 'text-delta' | 'reasoning-delta'; id: string; delta: string } & WithMetadata)
  | ({ type: 'tool-input-start'; id: string; toolName: string; providerExecuted?: boolean } & WithMetadata)
  | ({ type: 'tool-input-delta'; id: string; delta: string } & WithMetadata)
  | ({ type: 'tool-input-end'; id: string } & WithMetadata)
  | SdkWholePart
  | { type: 'stream-start'; warnings: object[] }
  | ({ type: 'response-metadata' } & SdkHead)
  | { type: 'finish'; usage: SdkUsage; finishReason: SdkFinishReason }
  | { type: 'raw'; rawValue: unknown }
  | { type: 'error'; error: unknown };
