import type { ArtifactInfo, ArtifactQuery } from '../../core/contracts/index.ts';
import { runArtifactScript } from './artifact-scripts.ts';
import { IdIndex } from './id-index.ts';
import type { RedisClient } from './redis-client.ts';

/** Which artifacts there are: in all, of each task and of each context. Lists of tasks and contexts live as long as their artifacts. */
export class ArtifactLists {
  readonly #client: RedisClient;
  readonly #prefix: string;
  readonly #seconds: number;
  readonly #all: IdIndex;

  constructor(client: RedisClient, prefix: string, seconds: number) {
    this.#client = client;
    this.#prefix = prefix;
    this.#seconds = seconds;
    this.#all = new IdIndex(client, `${prefix}:artifacts`);
  }

  async add(info: ArtifactInfo): Promise<void> {
    const { artifactId } = info;
    const args = [this.#seconds, artifactId];
    const mark = (key: string) => runArtifactScript(this.#client, { script: 'mark', key, artifactId, args });
    await Promise.all([this.#all.add(artifactId), ...this.#keysOf(info).map(mark)]);
  }

  /** Takes an artifact out of the list of all and of those that a query or an info names. */
  async remove(artifactId: string, of: ArtifactQuery): Promise<void> {
    const lists = this.#keysOf(of).map((key) => new IdIndex(this.#client, key));
    await Promise.all([this.#all, ...lists].map((list) => list.remove(artifactId)));
  }

  /** The ids behind one, at most `size`; of the task, else of the context that the query names, else of all. */
  page(query: ArtifactQuery & { readonly after: string }, size: number): Promise<readonly string[]> {
    const [key] = this.#keysOf(query);
    const list = key === undefined ? this.#all : new IdIndex(this.#client, key);
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
