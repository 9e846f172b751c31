import { createHash, randomUUID } from 'node:crypto';
import { AgentLoopError, type ArtifactInfo, type ArtifactQuery } from '../../core/contracts/index.ts';
import { damagedArtifact, noArtifact } from '../artifacts/artifact-errors.ts';
import type { ArtifactShelf, FoundVersion, NextVersion } from '../artifacts/artifact-shelf.ts';
import { ArtifactLists } from './artifact-lists.ts';
import { type ArtifactScript, changed, gone, notFound, runArtifactScript } from './artifact-scripts.ts';
import { bytesCommand, type CommandArgument } from './redis-client.ts';
import { chunkBytes, RedisDraft } from './redis-draft.ts';
import { redisError } from './redis-errors.ts';
import type { StoreConnection } from './store-connection.ts';

export interface RedisShelfSettings {
  readonly prefix: string;
  /** To live; below 0: for good. */
  readonly seconds: number;
  /** Of one content. */
  readonly maxBytes: number;
}

/** A version as Redis tells it. */
export interface RedisVersion extends FoundVersion {
  /** The id of its content. */
  readonly content: string;
  /** Of the last change of the artifact. */
  readonly stamp: string;
}

/** How many artifacts a list looks at at once. */
const looks = 32;

/** The keys of an artifact store, as `lua/artifact-prelude.lua` says, and the lists of artifacts beside them. */
export class RedisArtifactShelf implements ArtifactShelf<RedisVersion, RedisDraft> {
  readonly #connection: StoreConnection;
  readonly #settings: RedisShelfSettings;
  readonly #lists: ArtifactLists;

  constructor(connection: StoreConnection, settings: RedisShelfSettings) {
    this.#connection = connection;
    this.#settings = settings;
    this.#lists = new ArtifactLists(connection.client, settings.prefix, settings.seconds);
  }

  async newDraft(artifactId: string): Promise<RedisDraft> {
    this.#connection.assertOpen();
    const keyOf = (content: string) => this.#contentKey(artifactId, content);
    return new RedisDraft({ client: this.#connection.client, artifactId, keyOf, maxBytes: this.#settings.maxBytes });
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

  /** Compares the content with its info in the end. */
  async *read({ info, content }: RedisVersion): AsyncGenerator<Uint8Array> {
    const { artifactId, version, size } = info;
    const key = this.#contentKey(artifactId, content);
    const hash = createHash('sha256');
    let bytes = 0;
    for (let index = 0; index * chunkBytes < size; index++) {
      const chunk = await this.#chunk(key, index);
      if (chunk === undefined) throw await this.#lost(info);
      hash.update(chunk);
      bytes += chunk.length;
      yield chunk;
    }
    if (bytes === size && hash.digest('hex') === info.sha256) return;
    throw damagedArtifact(artifactId, `the content of version ${version} is not what was written`);
  }

  async *infos({ after, ...query }: ArtifactQuery & { readonly after: string }): AsyncGenerator<ArtifactInfo> {
    for (let behind: string | undefined = after; behind !== undefined; ) {
      this.#connection.assertOpen();
      const ids: readonly string[] = await this.#lists.page({ ...query, after: behind }, looks);
      const infos = await Promise.all(ids.map((id) => this.#newestOf(id, query)));
      for (const info of infos) if (info) yield info;
      behind = ids.length < looks ? undefined : ids.at(-1);
    }
  }

  async remove(artifactId: string): Promise<void> {
    const newest = await this.find(artifactId);
    if (newest === undefined) return;
    await this.#run('delete', artifactId);
    await this.#lists.remove(artifactId, newest.info);
    // Somebody may have made it anew between both.
    const anew = await this.find(artifactId);
    if (anew) await this.#lists.add(anew.info);
  }

  errorOf(thrown: unknown): AgentLoopError {
    return redisError(thrown);
  }

  /** Takes an artifact that is gone out of the lists that the query names. */
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

  /** Why a chunk is not there. */
  async #lost(info: ArtifactInfo): Promise<AgentLoopError> {
    const { artifactId, version } = info;
    return (await this.find(artifactId, version)) ? lostContent(info) : noArtifact(artifactId, version);
  }

  #run(script: ArtifactScript, artifactId: string, args: readonly CommandArgument[] = []) {
    this.#connection.assertOpen();
    const key = `${this.#settings.prefix}:{${artifactId}}:ah`;
    return runArtifactScript(this.#connection.client, { script, key, artifactId, args });
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
