import { createHash, randomUUID } from 'node:crypto';
import { AgentLoopError, type ArtifactInfo, type ArtifactQuery, type Clock } from '../../core/contracts/index.ts';
import { assertOptions, type OptionRules } from '../../options/option-rules.ts';
import { damagedArtifact, newerArtifact, noArtifact } from '../artifacts/check-artifact.ts';
import {
  type ArtifactBackend,
  type ArtifactDraft,
  type FoundVersion,
  type NextVersion,
  PartBuffer,
  VersionedArtifactStore,
  versionRules,
  type WrittenContent,
} from '../artifacts/versioned-artifact-store.ts';
import { aMost } from '../check-arguments.ts';
import { IdIndex } from './indexes.ts';
import { LuaScript } from './lua-scripts.ts';
import { bytesCommand, type CommandArgument, command, RedisConnection, redisError } from './redis-connection.ts';
import { type RedisSideOptions, secondsOf, sideRules } from './redis-options.ts';

/** Options of `RedisArtifactStore`. */
export interface RedisArtifactStoreOptions extends RedisSideOptions {
  /** Seconds that an artifact with all its versions is kept after its last change; null keeps it. Default 86,400. */
  readonly ttl?: number | null | undefined;
  /** The maximum size of one content, in bytes. Default 64 MiB. */
  readonly maxBytes?: number | undefined;
  /** How many versions of an artifact are kept; older ones are dropped. Default 10. */
  readonly keepVersions?: number | undefined;
  /** The clock of `createdAt` and `updatedAt`; replaced in tests. Default: the system clock. */
  readonly clock?: Clock | undefined;
}

const rules: OptionRules<RedisArtifactStoreOptions> = { ...versionRules, ...sideRules, maxBytes: aMost(1) };

/**
 * Stores artifacts in Redis 7 or newer: one server, Sentinel's primary, or a cluster. For contents that fit into its memory; store large ones
 * in a folder or S3.
 *
 * A content is written in chunks of 256 KiB under its own key, then one script publishes it as a version: atomically, and once
 * even if the connection breaks and the client sends it again. `read` compares content and hash. Nothing is connected before the first
 * call. The lists of artifacts are indexes that are repaired, not atomic with them. A draft without a write expires after a day.
 *
 * Errors besides the contract's: `INVALID_CONFIG` at construction; `UNAVAILABLE` and `FULL` as in `RedisMessageStore`, and `FULL` for a
 * content beyond `maxBytes`.
 *
 * Memory in this process: a chunk per draft and reader; whole contents only in `get`, `create` and `update`.
 */
export class RedisArtifactStore extends VersionedArtifactStore<RedisVersion, RedisDraft> {
  readonly #connection: RedisConnection;

  constructor(options: RedisArtifactStoreOptions) {
    assertOptions('RedisArtifactStore', options, rules);
    const { redis, ttl = 86_400, prefix = 'millrace', maxBytes = 64 * 1024 * 1024 } = options;
    const connection = new RedisConnection('RedisArtifactStore', redis);
    super(new RedisArtifactBackend(connection, { prefix, seconds: secondsOf(ttl), maxBytes }), options);
    this.#connection = connection;
  }

  /** Closes the connection that this store opened, and refuses further calls. Idempotent. */
  async close(): Promise<void> {
    await this.#connection.close();
  }
}

interface RedisBackendSettings {
  readonly prefix: string;
  /** The time to live; below 0: no expiry. */
  readonly seconds: number;
  /** The maximum size of one content. */
  readonly maxBytes: number;
}

/** A version in Redis. */
interface RedisVersion extends FoundVersion {
  /** The id of its content. */
  readonly content: string;
  /** Of the last change of the artifact. */
  readonly stamp: string;
}

/** How many artifacts a list reads concurrently. */
const looks = 32;

/** The keys of an artifact store, as `lua/artifact-prelude.lua` says, and the lists of artifacts beside them. */
class RedisArtifactBackend implements ArtifactBackend<RedisVersion, RedisDraft> {
  readonly #connection: RedisConnection;
  readonly #settings: RedisBackendSettings;
  readonly #lists: ArtifactLists;

  constructor(connection: RedisConnection, settings: RedisBackendSettings) {
    this.#connection = connection;
    this.#settings = settings;
    this.#lists = new ArtifactLists(connection, settings.prefix, settings.seconds);
  }

  async newDraft(artifactId: string): Promise<RedisDraft> {
    this.#connection.assertOpen();
    const content = randomUUID();
    const key = this.#contentKey(artifactId, content);
    return new RedisDraft({ connection: this.#connection, content, key, maxBytes: this.#settings.maxBytes });
  }

  async find(artifactId: string, version?: number): Promise<RedisVersion | undefined> {
    const [code, stamp, info, content] = await this.#run('look', artifactId, [version ?? '']);
    if (code === notFound) return undefined;
    return { info: infoIn(artifactId, String(info)), stamp: String(stamp), content: String(content) };
  }

  async publish({ info, before, draft }: NextVersion<RedisVersion, RedisDraft>): Promise<boolean> {
    const { artifactId, version } = info;
    const content = draft?.content ?? before?.content ?? '';
    await this.#lists.add(info);
    // An empty content has one chunk too.
    const chunks = Math.max(1, Math.ceil(info.size / chunkBytes));
    const found = before?.stamp ?? '';
    const args = [this.#settings.seconds, found, randomUUID(), version, JSON.stringify(info), content, chunks];
    const [code] = await this.#run('publish', artifactId, args);
    if (code === changed) return false;
    if (code === gone) throw draft ? lostDraft(artifactId) : lostContent(info);
    draft?.published();
    // A list may have met the entry without its artifact.
    if (version === 1) {
      await this.#lists.add(info);
      for (const id of await this.#lists.sample()) await this.#newestOf(id, {});
    }
    return true;
  }

  async dropOldVersions(artifactId: string, keep: number): Promise<void> {
    await this.#run('drop', artifactId, [keep]);
  }

  async *read({ info, content }: RedisVersion): AsyncGenerator<Uint8Array> {
    const key = this.#contentKey(info.artifactId, content);
    for (let index = 0; index * chunkBytes < info.size; index++) {
      const chunk = await this.#chunk(key, index);
      if (chunk === undefined) throw await this.#lost(info);
      yield chunk;
    }
  }

  async *infos({ after, ...query }: ArtifactQuery & { readonly after: string }): AsyncGenerator<ArtifactInfo> {
    for (let cursor: string | undefined = after; cursor !== undefined; ) {
      this.#connection.assertOpen();
      const ids: readonly string[] = await this.#lists.page({ ...query, after: cursor }, looks);
      const infos = await Promise.all(ids.map((id) => this.#newestOf(id, query)));
      for (const info of infos) if (info) yield info;
      cursor = ids.length < looks ? undefined : ids.at(-1);
    }
  }

  async remove(artifactId: string): Promise<void> {
    const newest = await this.find(artifactId);
    if (newest === undefined) return;
    await this.#run('delete', artifactId);
    await this.#lists.remove(artifactId, newest.info);
    // Another process may have created it again meanwhile.
    const anew = await this.find(artifactId);
    if (anew) await this.#lists.add(anew.info);
  }

  errorOf(thrown: unknown): AgentLoopError {
    return redisError(thrown);
  }

  /** Removes a missing artifact from the lists that the query names. */
  async #newestOf(artifactId: string, query: ArtifactQuery): Promise<ArtifactInfo | undefined> {
    const found = await this.find(artifactId);
    if (found === undefined) await this.#lists.remove(artifactId, query);
    return found?.info;
  }

  async #chunk(key: string, index: number): Promise<Uint8Array | undefined> {
    this.#connection.assertOpen();
    const chunk = await bytesCommand(this.#connection.client, 'hget', key, String(index));
    return chunk instanceof Uint8Array ? chunk : undefined;
  }

  /** Why a chunk is missing. */
  async #lost(info: ArtifactInfo): Promise<AgentLoopError> {
    const { artifactId, version } = info;
    return (await this.find(artifactId, version)) ? lostContent(info) : noArtifact(artifactId, version);
  }

  #run(script: HeadScript, artifactId: string, args: readonly CommandArgument[] = []) {
    const key = `${this.#settings.prefix}:{${artifactId}}:ah`;
    return runArtifactScript(this.#connection, { script, key, artifactId, args });
  }

  /** Artifact ids match `taskIdPattern`, so none of them breaks the hash tag. */
  #contentKey(artifactId: string, content: string): string {
    return `${this.#settings.prefix}:{${artifactId}}:ac:${content}`;
  }
}

function lostDraft(artifactId: string): AgentLoopError {
  const message = `Redis does not have the draft of artifact "${artifactId}" any more; write it again from its beginning.`;
  return new AgentLoopError('UNAVAILABLE', message, { retryable: true });
}

function lostContent({ artifactId, version }: ArtifactInfo): AgentLoopError {
  return damagedArtifact(artifactId, `Redis lost or evicted the content of version ${version}`);
}

function infoIn(artifactId: string, text: string): ArtifactInfo {
  try {
    const info: ArtifactInfo = JSON.parse(text);
    if (info.artifactId === artifactId) return info;
  } catch {
    throw damagedArtifact(artifactId, 'what is known of a version is not JSON');
  }
  throw damagedArtifact(artifactId, 'a version of it is that of another artifact');
}

const chunkBytes = 256 * 1024;

/** How long Redis keeps a draft without a write. */
const draftSeconds = 24 * 60 * 60;

interface RedisDraftPlace {
  readonly connection: RedisConnection;
  /** Its id. */
  readonly content: string;
  readonly key: string;
  readonly maxBytes: number;
}

/** Content that is written to Redis chunk by chunk under its own key, which expires if the write is not continued. */
class RedisDraft implements ArtifactDraft {
  readonly #place: RedisDraftPlace;
  readonly #hash = createHash('sha256');
  readonly #rest = new PartBuffer(chunkBytes);
  #sent = 0;
  #size = 0;
  #isPublished = false;

  constructor(place: RedisDraftPlace) {
    this.#place = place;
  }

  get content(): string {
    return this.#place.content;
  }

  get size(): number {
    return this.#size;
  }

  async add(bytes: Uint8Array): Promise<void> {
    const { maxBytes } = this.#place;
    if (this.#size + bytes.length > maxBytes) {
      const message = `A content has more than ${maxBytes} bytes; raise maxBytes, or keep large artifacts in a folder or in S3.`;
      throw new AgentLoopError('FULL', message);
    }
    this.#hash.update(bytes);
    this.#size += bytes.length;
    for (const chunk of this.#rest.fill(bytes)) await this.#send(chunk);
  }

  async complete(): Promise<WrittenContent> {
    // An empty content also has one chunk, so that its key exists.
    if (this.#rest.bytes > 0 || this.#sent === 0) await this.#send(this.#rest.take());
    return { size: this.#size, sha256: this.#hash.digest('hex') };
  }

  /** From now on the content belongs to a version. */
  published(): void {
    this.#isPublished = true;
  }

  async discard(): Promise<void> {
    if (this.#isPublished || this.#sent === 0) return;
    await command(this.#place.connection.client, 'unlink', this.#place.key);
  }

  async #send(chunk: Uint8Array): Promise<void> {
    const { connection, key } = this.#place;
    const args = [draftSeconds, this.#sent, Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)];
    await chunkScript.run(connection, [key], args);
    this.#sent++;
  }
}

/** The indexes of artifacts: all, of each task and of each context. Those of tasks and contexts live as long as their artifacts. */
class ArtifactLists {
  readonly #connection: RedisConnection;
  readonly #prefix: string;
  readonly #seconds: number;
  readonly #all: IdIndex;

  constructor(connection: RedisConnection, prefix: string, seconds: number) {
    this.#connection = connection;
    this.#prefix = prefix;
    this.#seconds = seconds;
    this.#all = new IdIndex(connection, `${prefix}:artifacts`);
  }

  async add(info: ArtifactInfo): Promise<void> {
    const { artifactId } = info;
    const args = [this.#seconds, artifactId];
    const mark = (key: string) => markScript.run(this.#connection, [key], args);
    await Promise.all([this.#all.add(artifactId), ...this.#keysOf(info).map(mark)]);
  }

  /** Removes an artifact from the list of all and from those that a query or an info names. */
  async remove(artifactId: string, of: ArtifactQuery): Promise<void> {
    const lists = this.#keysOf(of).map((key) => new IdIndex(this.#connection, key));
    await Promise.all([this.#all, ...lists].map((list) => list.remove(artifactId)));
  }

  /** The ids after one, at most `size`; of the task, else of the context that the query names, else of all. */
  page(query: ArtifactQuery & { readonly after: string }, size: number): Promise<readonly string[]> {
    const [key] = this.#keysOf(query);
    const list = key === undefined ? this.#all : new IdIndex(this.#connection, key);
    return list.page(query.after, size);
  }

  /** Some ids now and then, called once for each new artifact, to see whether they are still there. */
  sample(): Promise<readonly string[]> {
    return this.#all.sample();
  }

  #keysOf({ taskId, contextId }: ArtifactQuery): readonly string[] {
    return [
      ...(taskId === undefined ? [] : [`${this.#prefix}:artifacts:t:${taskId}`]),
      ...(contextId === undefined ? [] : [`${this.#prefix}:artifacts:c:${contextId}`]),
    ];
  }
}

const prelude = 'artifact-prelude';

/** About the head of an artifact. */
const headScripts = {
  publish: new LuaScript('artifact-publish-1', { prelude }),
  look: new LuaScript('artifact-look-1', { prelude, flags: 'no-writes' }),
  drop: new LuaScript('artifact-drop-1', { prelude, flags: 'allow-oom' }),
  delete: new LuaScript('artifact-delete-1', { prelude, flags: 'allow-oom' }),
};

type HeadScript = keyof typeof headScripts;

const chunkScript = new LuaScript('artifact-chunk-1');
const markScript = new LuaScript('artifact-mark-1');

/** The codes that callers tell apart, as `lua/artifact-prelude.lua` names them. */
const [notFound, changed, gone] = [-1, -8, -9];

interface ArtifactCall {
  readonly script: HeadScript;
  readonly key: string;
  readonly args?: readonly CommandArgument[];
  readonly artifactId: string;
}

/** Returns the script's values, its code first. Errors: `SCHEMA`, `FULL`, `UNAVAILABLE`. */
export async function runArtifactScript(
  connection: RedisConnection,
  { script, key, args, artifactId }: ArtifactCall,
): Promise<readonly unknown[]> {
  const answer = await headScripts[script].run(connection, [key], args);
  if (answer[0] === -6) throw newerArtifact(artifactId, Number(answer[1]));
  return answer;
}
