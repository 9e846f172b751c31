import { isJsonObject } from '../openai-wire/wire-errors.ts';
import type {
  SdkAssistantPart,
  SdkCallOptions,
  SdkContent,
  SdkFile,
  SdkFilePart,
  SdkGenerated,
  SdkMessage,
  SdkModel,
  SdkOutput,
  SdkOutputPart,
  SdkResultPart,
  SdkStreamed,
  SdkStreamPart,
} from './sdk-model.ts';

/**
 * A language model of an AI SDK package: of the interface v3 (AI SDK 6) or v4 (AI SDK 7). A structural type, which the models of both versions of
 * `@ai-sdk/provider` satisfy. Its methods are for {@link AISDKProvider} alone, hence the options that nobody can give.
 */
export interface AISDKModel {
  /** The version of the interface. */
  readonly specificationVersion: 'v3' | 'v4';
  /** The vendor, as its package names it. */
  readonly provider: string;
  /** The model, as the vendor names it. */
  readonly modelId: string;
  /** The whole answer of one request. */
  doGenerate(options: never): PromiseLike<object>;
  /** The answer of one request, as a stream. */
  doStream(options: never): PromiseLike<object>;
}

/** The interfaces that are known here. A later one is refused: a model that gets the prompt of another interface drops parts of it silently. */
export const interfaceVersions: readonly string[] = [
  'v3',
  'v4',
] satisfies readonly AISDKModel['specificationVersion'][];

/**
 * The model behind one interface. v4 tags the data of files in prompts and answers, has one part for all files of a tool result, and parts of type `custom`
 * that a vendor keeps for itself. The rest is the same in both. Source: the language model specifications v3 and v4 of `@ai-sdk/provider`.
 */
export function asV3(model: AISDKModel): SdkModel {
  const address = addressOf(model);
  const known = address === undefined ? {} : { address };
  if (isV3(model)) return { ...ofV3(model), ...known };
  if (isV4(model)) return { ...ofV4(model), ...known };
  throw new TypeError(`A model has the interface ${model.specificationVersion}.`);
}

/**
 * The base address of a model. The interface does not have it; the classes of the vendors keep it in `config`, as a string or a function. It tells one server
 * from another, so a model that hides it is identified by its package and its name.
 */
function addressOf(model: object): string | undefined {
  const config = 'config' in model && isJsonObject(model.config) ? model.config : {};
  const { baseURL, baseUrl, url } = config;
  const candidates = [
    () => baseURL,
    () => (typeof baseUrl === 'function' ? baseUrl() : baseUrl),
    () => (typeof url === 'function' ? url({ path: '', modelId: '' }) : undefined),
  ];
  for (const candidate of candidates) {
    try {
      const address: unknown = candidate();
      if (typeof address === 'string' && URL.canParse(address)) return address.replace(/\/+$/, '');
    } catch {
      // A function of another form: its address is not known.
    }
  }
  return undefined;
}

function isV3(model: AISDKModel): model is AISDKModel & SdkModel {
  return model.specificationVersion === 'v3';
}

function isV4(model: AISDKModel): model is AISDKModel & V4Model {
  return model.specificationVersion === 'v4';
}

/** History of a model of v4 may be continued by one of v3, which knows no `custom`. */
function ofV3(model: SdkModel): SdkModel {
  const known = (options: SdkCallOptions) => ({ ...options, prompt: options.prompt.map(withoutCustom) });
  return {
    provider: model.provider,
    modelId: model.modelId,
    doGenerate: (options) => model.doGenerate(known(options)),
    doStream: (options) => model.doStream(known(options)),
  };
}

function withoutCustom(message: SdkMessage): SdkMessage {
  if (message.role !== 'assistant') return message;
  return { ...message, content: message.content.filter(({ type }) => type !== 'custom') };
}

interface V4Model {
  readonly provider: string;
  readonly modelId: string;
  doGenerate(options: V4CallOptions): PromiseLike<Omit<SdkGenerated, 'content'> & { content: V4Content[] }>;
  doStream(options: V4CallOptions): PromiseLike<Omit<SdkStreamed, 'stream'> & { stream: ReadableStream<V4StreamPart> }>;
}

type V4Data = { type: 'data'; data: string | Uint8Array } | { type: 'url'; url: URL };

type V4FilePart = Omit<SdkFilePart, 'data'> & { data: V4Data };

type V4OutputPart =
  | { type: 'text'; text: string }
  | { type: 'file'; data: V4Data; mediaType: string; filename?: string };

type V4Output = Exclude<SdkOutput, { type: 'content' }> | { type: 'content'; value: V4OutputPart[] };

type V4ResultPart = Omit<SdkResultPart, 'output'> & { output: V4Output };

type V4AssistantPart = Exclude<SdkAssistantPart, SdkFilePart | SdkResultPart> | V4FilePart | V4ResultPart;

type V4Message = Pick<SdkMessage, 'providerOptions'> &
  (
    | { role: 'system'; content: string }
    | { role: 'user'; content: ({ type: 'text'; text: string } | V4FilePart)[] }
    | { role: 'assistant'; content: V4AssistantPart[] }
    | { role: 'tool'; content: V4ResultPart[] }
  );

type V4CallOptions = Omit<SdkCallOptions, 'prompt'> & { prompt: V4Message[] };

type V4File = Omit<SdkFile, 'data'> & { data: V4Data };

/** Of types that are not known here, `custom` among them, `SdkAnswer` decides. */
type V4Content = Exclude<SdkContent, SdkFile> | V4File | V4Unused;

type V4StreamPart = Exclude<SdkStreamPart, SdkFile> | V4File | V4Unused;

/** Files that a model made while it thought are no part of its answer. */
type V4Unused = { type: 'reasoning-file' } | { type: 'ping' };

function ofV4(model: V4Model): SdkModel {
  return {
    provider: model.provider,
    modelId: model.modelId,
    async doGenerate(options) {
      const generated = await model.doGenerate(v4Options(options));
      return { ...generated, content: generated.content.flatMap(v3Content) };
    },
    async doStream(options) {
      const streamed = await model.doStream(v4Options(options));
      const parts = new TransformStream<V4StreamPart, SdkStreamPart>({
        transform(part, controller) {
          for (const known of v3StreamPart(part)) controller.enqueue(known);
        },
      });
      return { ...streamed, stream: streamed.stream.pipeThrough(parts) };
    },
  };
}

function v3Content(part: V4Content): SdkContent[] {
  if (part.type === 'reasoning-file' || part.type === 'ping') return [];
  return [part.type === 'file' ? v3File(part) : part];
}

function v3StreamPart(part: V4StreamPart): SdkStreamPart[] {
  if (part.type === 'reasoning-file' || part.type === 'ping') return [];
  return [part.type === 'file' ? v3File(part) : part];
}

function v3File({ data, ...file }: V4File): SdkFile {
  return { ...file, data: data.type === 'url' ? data.url : data.data };
}

function v4Options({ prompt, ...options }: SdkCallOptions): V4CallOptions {
  return { ...options, prompt: prompt.map(v4Message) };
}

function v4Message(message: SdkMessage): V4Message {
  switch (message.role) {
    case 'system':
      return message;
    case 'user':
      return { ...message, content: message.content.map((part) => (part.type === 'file' ? v4File(part) : part)) };
    case 'assistant':
      return { ...message, content: message.content.map(v4AssistantPart) };
    case 'tool':
      return { ...message, content: message.content.map(v4Result) };
  }
}

function v4AssistantPart(part: SdkAssistantPart): V4AssistantPart {
  if (part.type === 'file') return v4File(part);
  return part.type === 'tool-result' ? v4Result(part) : part;
}

function v4File({ data, mediaType, ...part }: SdkFilePart): V4FilePart {
  return { ...part, data: v4Data(data), mediaType: data instanceof URL ? typeOfAddress(data, mediaType) : mediaType };
}

/** Models of v4 for Google refuse a picture by address without the exact type; those of v3 take it for a JPEG. */
function typeOfAddress({ pathname }: URL, mediaType: string): string {
  if (mediaType !== 'image/*') return mediaType;
  const [, type = 'jpeg'] = /\.(png|gif|webp)$/i.exec(pathname) ?? [];
  return `image/${type.toLowerCase()}`;
}

function v4Data(data: string | URL): V4Data {
  return typeof data === 'string' ? { type: 'data', data } : { type: 'url', url: data };
}

function v4Result({ output, ...part }: SdkResultPart): V4ResultPart {
  if (output.type !== 'content') return { ...part, output };
  return { ...part, output: { type: 'content', value: output.value.map(v4OutputPart) } };
}

function v4OutputPart(part: SdkOutputPart): V4OutputPart {
  switch (part.type) {
    case 'text':
      return part;
    case 'file-data':
    case 'image-data': {
      const { type: _, data, ...file } = part;
      return { ...file, type: 'file', data: v4Data(data) };
    }
    case 'file-url':
      return { type: 'file', data: v4Data(new URL(part.url)), mediaType: part.mediaType ?? 'application/octet-stream' };
    case 'image-url': {
      const url = new URL(part.url);
      return { type: 'file', data: v4Data(url), mediaType: typeOfAddress(url, 'image/*') };
    }
  }
}
