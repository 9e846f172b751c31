import { childTaskId } from '../child-task-id.ts';
import {
  type AgentLoopConfig,
  AgentLoopError,
  type Artifact,
  type ArtifactInfo,
  type ArtifactStore,
  headOf,
  invalidConfig,
  isObject,
  shownValue,
  splitsPair,
  type ToolContext,
  type ToolProvider,
} from '../core/contracts/index.ts';
import { hasMethods } from '../options/option-rules.ts';
import { groupOf } from '../stores/task-summary.ts';
import { LocalToolProvider } from './local-tools.ts';
import { type Tool, tool } from './tool.ts';
import { innermost } from './wrapped-tools.ts';

const id = { type: 'string', description: 'The artifactId.' } as const;
const text = { type: 'string', description: 'The whole content, as text.' } as const;
const repeatable = { idempotent: true, onInDoubt: 'retry' } as const;

/** The metadata under which a version names the call that made it. */
const madeBy = 'millrace.call';

/** By store, the providers that keep artifacts in it. */
const madeFor = new WeakMap<ArtifactStore, WeakSet<ToolProvider>>();

/** By store, the provider that configurations with this `artifactStore` get. */
const shared = new WeakMap<ArtifactStore, ToolProvider>();

/**
 * Tools with which the model keeps artifacts: `create_artifact`, `update_artifact`, `read_artifact`, `list_artifacts`. A result holds a
 * reference; each change is shown as an `artifact-update` event. A call that runs again after a crash makes nothing twice.
 */
export function artifactTools(store: ArtifactStore): ToolProvider {
  const tools = [createTool(store), updateTool(store), readTool(store), listTool(store)];
  const provider = new LocalToolProvider(tools, { name: 'artifact tools' });
  const known = madeFor.get(store);
  if (known) known.add(provider);
  else madeFor.set(store, new WeakSet([provider]));
  return provider;
}

type ToolConfig = Pick<AgentLoopConfig, 'artifactStore' | 'toolProviders' | 'extensions'>;

/**
 * The configuration with the tools of its `artifactStore` in place of that, after the other tools; without them where `toolProviders` or an
 * extension has those of the same store, as they are or wrapped. Without an `artifactStore` the configuration as it is. Errors:
 * `INVALID_CONFIG` for what is no store of artifacts.
 */
export function withArtifactTools<Config extends ToolConfig>(config: Config): Config {
  // What is no configuration is refused by those that use it.
  const { artifactStore, toolProviders = [], extensions = [] }: ToolConfig = config ?? {};
  if (artifactStore === undefined) return config;
  checkArtifactStore(artifactStore);
  if (!Array.isArray(toolProviders) || !Array.isArray(extensions)) return withoutStore(config, toolProviders);
  const given = [...toolProviders, ...extensions.flatMap((extension) => extension?.toolProviders ?? [])];
  const ofStore = madeFor.get(artifactStore);
  const hasThem = given.some((provider) => ofStore?.has(innermost(provider)));
  return withoutStore(config, hasThem ? toolProviders : [...toolProviders, sharedTools(artifactStore)]);
}

function withoutStore<Config extends ToolConfig>(
  config: Config,
  toolProviders: NonNullable<ToolConfig['toolProviders']>,
): Config {
  return Object.assign({}, config, { artifactStore: undefined, toolProviders });
}

function sharedTools(store: ArtifactStore): ToolProvider {
  const made = shared.get(store) ?? artifactTools(store);
  shared.set(store, made);
  return made;
}

const storeMethods: readonly (keyof ArtifactStore)[] = ['create', 'update', 'describe', 'get', 'list'];

function checkArtifactStore(store: ArtifactStore): void {
  const missing = storeMethods.filter((name) => !hasMethods(store, [name]));
  if (missing.length === 0) return;
  const what = isObject(store) ? `it lacks ${missing.join(', ')}` : `it is ${shownValue(store)}`;
  throw invalidConfig(
    `artifactStore must be an ArtifactStore; ${what}`,
    'give new InMemoryArtifactStore(), or leave it out',
  );
}

function createTool(store: ArtifactStore): Tool {
  return tool({
    name: 'create_artifact',
    description: 'Keeps a document or another result that is worth keeping. Gives its artifactId.',
    parameters: {
      type: 'object',
      properties: {
        name: { type: 'string', description: 'Such as report.md.' },
        content: text,
        mediaType: { type: 'string', description: 'Such as text/markdown. Default text/plain.' },
      },
      required: ['name', 'content'],
    },
    ...repeatable,
    async execute({ name, content, mediaType }, context) {
      const { taskId, contextId, callId } = context;
      const artifactId = childTaskId(`${taskId}:${callId}`);
      const artifact = { artifactId, name, content, taskId, contextId, ...(mediaType ? { mediaType } : {}) };
      const made = (await store.describe(artifactId)) ?? (await store.create(artifact));
      return shown(made, content, context);
    },
  });
}

function updateTool(store: ArtifactStore): Tool {
  return tool({
    name: 'update_artifact',
    description: 'Replaces the content of an artifact: a new version.',
    parameters: { type: 'object', properties: { artifactId: id, content: text }, required: ['artifactId', 'content'] },
    ...repeatable,
    async execute({ artifactId, content }, context) {
      const before = await existing(store, artifactId, context);
      if (before.metadata?.[madeBy] === context.idempotencyKey) return shown(before, content, context);
      const metadata = { ...before.metadata, [madeBy]: context.idempotencyKey };
      return shown(await store.update(artifactId, { content, metadata }), content, context);
    },
  });
}

function readTool(store: ArtifactStore): Tool {
  return tool({
    name: 'read_artifact',
    description: 'Gives the content of an artifact.',
    parameters: {
      type: 'object',
      properties: {
        artifactId: id,
        from: { type: 'integer', minimum: 0, description: 'The first character of a large content. Default 0.' },
      },
      required: ['artifactId'],
    },
    readOnly: true,
    onInDoubt: 'retry',
    async execute({ artifactId, from = 0 }, context) {
      const { version } = await existing(store, artifactId, context);
      const artifact = (await store.get(artifactId, { version })) ?? (await missing(store, artifactId, context));
      return partOf(textOfArtifact(artifact), from);
    },
  });
}

function listTool(store: ArtifactStore): Tool {
  return tool({
    name: 'list_artifacts',
    description: 'Lists the artifacts of this conversation.',
    parameters: {
      type: 'object',
      properties: { after: { type: 'string', description: 'The next of the page before.' } },
    },
    readOnly: true,
    onInDoubt: 'retry',
    async execute({ after }, { contextId }) {
      const { artifacts, next } = await store.list({ contextId, ...(after ? { after } : {}) });
      return { artifacts: artifacts.map(referenceOf), ...(next === undefined ? {} : { next }) };
    },
  });
}

function shown(artifact: ArtifactInfo, content: string, { progress }: ToolContext): unknown {
  const { artifactId } = artifact;
  progress({ type: 'artifact-chunk', artifactId, text: content, append: false, lastChunk: true });
  return referenceOf(artifact);
}

function referenceOf({ artifactId, version, name, mediaType, size }: ArtifactInfo): unknown {
  return { artifactId, version, name, mediaType, size };
}

/** A context sees its own artifacts; one of a group, which is one owner's, those of the group. */
async function existing(store: ArtifactStore, artifactId: string, context: ToolContext): Promise<ArtifactInfo> {
  const found = await store.describe(artifactId);
  return found && isSeenIn(context.contextId, found.contextId) ? found : missing(store, artifactId, context);
}

function isSeenIn(contextId: string, other = ''): boolean {
  const group = groupOf(contextId);
  return other === contextId || (group !== undefined && groupOf(other) === group);
}

async function missing(store: ArtifactStore, artifactId: string, { contextId }: ToolContext): Promise<never> {
  const { artifacts } = await store.list({ contextId, limit: 10 });
  const known = artifacts.map((artifact) => artifact.artifactId).join(', ') || 'none';
  throw new AgentLoopError('NOT_FOUND', `There is no artifact "${artifactId}"; known artifacts: ${known}`);
}

function textOfArtifact({ content, mediaType, size }: Artifact): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(content);
  } catch {
    return `The content is not text: ${size} bytes of ${mediaType}.`;
  }
}

/** The most characters of one result: in UTF-8 fewer bytes than a turn keeps of a result. */
const longestPart = 2 * 1024 * 1024;

function partOf(text: string, from: number): string {
  if (from === 0 && text.length <= longestPart) return text;
  const start = splitsPair(text, from) ? from - 1 : from;
  const part = headOf(text.slice(start), longestPart);
  const end = start + part.length;
  return end >= text.length ? part : `${part}\n[… ${text.length - end} more characters; read them with from: ${end} …]`;
}

/** Texts, as they come. */
export type TextChunks = Iterable<string> | AsyncIterable<string>;

/**
 * Writes the content of an artifact, chunk by chunk, and shows each as an `artifact-update` event once the store has it: the first with
 * `append: false`, the last, which is empty, with `lastChunk: true`. Gives the version that the last one makes. Nobody sees the content
 * before that; where it is left half-way, what the artifact held stays. Holds one chunk at a time. Errors: those of the store, and the
 * reason of the context's signal once the call is cancelled.
 */
export async function writeArtifact(
  store: ArtifactStore,
  artifactId: string,
  chunks: TextChunks,
  context: Pick<ToolContext, 'progress' | 'signal'>,
): Promise<ArtifactInfo> {
  let size = 0;
  let append = false;
  for await (const text of chunks) {
    context.signal.throwIfAborted();
    ({ size } = await store.append(artifactId, text, { offset: size }));
    context.progress({ type: 'artifact-chunk', artifactId, text, append, lastChunk: false });
    append = true;
  }
  const { artifact } = await store.append(artifactId, '', { offset: size, last: true });
  context.progress({ type: 'artifact-chunk', artifactId, text: '', append, lastChunk: true });
  if (artifact) return artifact;
  const known = await store.describe(artifactId);
  if (known) return known;
  throw new AgentLoopError('NOT_FOUND', `Artifact "${artifactId}" was deleted while it was written; create it again.`);
}
