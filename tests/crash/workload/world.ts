import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';

/** One line of the ledger: what happened outside of the engine. `at`: milliseconds since 1970. */
export type Deed =
  | {
      readonly type: 'start';
      /** Names the execution. */
      readonly id: string;
      readonly task: string;
      readonly callId: string;
      readonly key: string;
      readonly tool: string;
      readonly attempt: number;
      readonly pid: number;
      readonly at: number;
    }
  /** The effect of an execution, and what it answered or threw. */
  | { readonly type: 'end'; readonly id: string; readonly task: string; readonly key: string; readonly content: string }
  | {
      readonly type: 'model';
      readonly task: string;
      /** Of trees: whose model it is. */
      readonly agent?: string;
      readonly iteration: number;
      /** Of trees: how many messages of an earlier turn it has. */
      readonly earlier?: number;
      /** Of trees: how many steering messages it has. */
      readonly told?: number;
      readonly pid: number;
      readonly at: number;
    }
  /** Somebody steered a turn from outside; its journal had so many records then. */
  | { readonly type: 'steered'; readonly task: string; readonly command: string; readonly seq: number }
  /** A process got a lease; of a child turn, under the lease of its parent. */
  | {
      readonly type: 'lease';
      readonly task: string;
      readonly epoch: number;
      readonly under?: { readonly taskId: string; readonly epoch: number };
      readonly pid: number;
      readonly at: number;
    }
  /** An append in which another agent takes the turn: the types of its records. */
  | { readonly type: 'changed'; readonly task: string; readonly types: readonly string[]; readonly pid: number }
  /** After the end of a team's turn: who answers next in its conversation, and how many messages of users that has. */
  | {
      readonly type: 'current';
      readonly task: string;
      readonly agent: string;
      readonly users: number;
      readonly pid: number;
    }
  /** It writes the end of a turn, and it has written it. */
  | { readonly type: 'ending' | 'ended'; readonly task: string; readonly epoch: number; readonly pid: number }
  /** It gives the lease back. */
  | {
      readonly type: 'released';
      readonly task: string;
      readonly epoch: number;
      readonly pid: number;
      readonly at: number;
    }
  /** An event of a record was shown: `<seq>-<epoch>`. */
  | { readonly type: 'shown'; readonly task: string; readonly record: string; readonly pid: number }
  /** A turn was over for a process, whose call or request in it, or below it, nothing had told to stop. */
  | { readonly type: 'unstopped'; readonly task: string; readonly work: string; readonly pid: number };

/** The world that tools change. What is noted stands, whoever dies next. */
export interface World {
  note(deed: Deed): void;
  /** What was noted so far, by anybody. */
  deeds(): readonly Deed[];
}

/** A file that several processes append to, a line at a time. */
export class WorldFile implements World {
  readonly #path: string;
  readonly #file: number;

  constructor(path: string) {
    this.#path = path;
    this.#file = openSync(path, 'a');
  }

  note(deed: Deed): void {
    writeSync(this.#file, lineOf(deed));
  }

  deeds(): readonly Deed[] {
    return readDeeds(this.#path);
  }

  close(): void {
    closeSync(this.#file);
  }
}

export function lineOf(deed: Deed): string {
  return `${JSON.stringify(deed)}\n`;
}

export function readDeeds(path: string): readonly Deed[] {
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
}
