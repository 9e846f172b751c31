import type { AgentLoopError } from '../../core/contracts/index.ts';
import { newerArtifact } from '../artifacts/artifact-errors.ts';
import { evaluate } from './evaluate.ts';
import { luaScript } from './lua-scripts.ts';
import type { CommandArgument, RedisClient } from './redis-client.ts';

/** By name: the flags that Redis runs `lua/artifact-<name>-1.lua` with, and whether it is about an artifact, with the prelude. */
const scripts = {
  publish: { flags: '', ofHead: true },
  look: { flags: ' flags=no-writes', ofHead: true },
  drop: { flags: ' flags=allow-oom', ofHead: true },
  delete: { flags: ' flags=allow-oom', ofHead: true },
  chunk: { flags: '', ofHead: false },
  mark: { flags: '', ofHead: false },
} as const;

export type ArtifactScript = keyof typeof scripts;

/** The codes that callers tell apart, as `lua/artifact-prelude.lua` names them. */
export const notFound = -1;
export const changed = -8;
export const gone = -9;

export interface ArtifactCall {
  readonly script: ArtifactScript;
  readonly key: string;
  readonly args?: readonly CommandArgument[];
  readonly artifactId: string;
}

/** What the script gave, its code first. Errors: `SCHEMA`, `FULL`, `UNAVAILABLE`. */
export async function runArtifactScript(client: RedisClient, call: ArtifactCall): Promise<readonly unknown[]> {
  const { script, key, args = [], artifactId } = call;
  const { flags, ofHead } = scripts[script];
  const lua = luaScript({ ...(ofHead && { prelude: 'artifact-prelude' }), file: `artifact-${script}-1`, flags });
  const answer = await evaluate(client, { script: lua, keys: [key], args });
  const error = errorOf(artifactId, answer);
  if (error) throw error;
  return answer;
}

function errorOf(artifactId: string, [code, layout]: readonly unknown[]): AgentLoopError | undefined {
  return code === -6 ? newerArtifact(artifactId, Number(layout)) : undefined;
}
