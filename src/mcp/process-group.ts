/** The groups that this process has started and that are to end with it, by their leaders' process ids. */
const groups = new Set<number>();
const pollMs = 20;
let listening = false;

/** Ends the group at once where this process exits before the group was ended. */
export function watchGroup(leader: number): void {
  groups.add(leader);
  if (listening) return;
  listening = true;
  process.once('exit', () => {
    for (const each of groups) signalGroup(each, 'SIGKILL');
  });
}

export function isGroupAlive(leader: number): boolean {
  return signalGroup(leader, 0);
}

export interface EndOptions {
  /** How long each step may take. Milliseconds. */
  readonly graceMs: number;
  /** Whether the group has been asked to end by other means, and gets time for it before SIGTERM. */
  readonly politely: boolean;
}

/** Waits for a group to end by itself, if it was asked to, then sends SIGTERM, then SIGKILL. Resolves once nothing of it is left. */
export async function endGroup(leader: number, { graceMs, politely }: EndOptions): Promise<void> {
  const gone = (politely && (await isGoneWithin(leader, graceMs))) || !signalGroup(leader, 'SIGTERM');
  if (!gone && !(await isGoneWithin(leader, graceMs))) {
    signalGroup(leader, 'SIGKILL');
    await isGoneWithin(leader, graceMs);
  }
  groups.delete(leader);
}

async function isGoneWithin(leader: number, ms: number): Promise<boolean> {
  const deadline = Date.now() + ms;
  while (isGroupAlive(leader)) {
    if (Date.now() >= deadline) return false;
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
  return true;
}

/** Whether there was anybody to get the signal. */
function signalGroup(leader: number, signal: NodeJS.Signals | 0): boolean {
  try {
    // Windows has no groups: there only the leader is reached.
    process.kill(process.platform === 'win32' ? leader : -leader, signal);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
