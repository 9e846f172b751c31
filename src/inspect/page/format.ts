import type { TreeNode } from '../wire.ts';

/** A state in words, and the colour that goes with it. */
interface ShownState {
  readonly label: string;
  readonly tone: 'good' | 'bad' | 'busy' | 'wait' | 'calm';
}

const states: Readonly<Record<string, ShownState>> = {
  submitted: { label: 'Submitted', tone: 'calm' },
  working: { label: 'Working', tone: 'busy' },
  resumable: { label: 'Not running', tone: 'wait' },
  'input-required': { label: 'Needs input', tone: 'wait' },
  'auth-required': { label: 'Needs sign-in', tone: 'wait' },
  completed: { label: 'Completed', tone: 'good' },
  failed: { label: 'Failed', tone: 'bad' },
  rejected: { label: 'Rejected', tone: 'bad' },
  canceled: { label: 'Canceled', tone: 'calm' },
  missing: { label: 'Not in this store', tone: 'bad' },
  running: { label: 'Running', tone: 'busy' },
  done: { label: 'Done', tone: 'good' },
  interrupted: { label: 'Interrupted', tone: 'bad' },
  asked: { label: 'Asked', tone: 'wait' },
};

export function shownState(state: string): ShownState {
  return states[state] ?? { label: state, tone: 'calm' };
}

/** A turn that is to run and that no process holds is not running. */
export function standing(state: TreeNode['state'], held: boolean): string {
  return state === 'working' && !held ? 'resumable' : state;
}

export function duration(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1000)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/** How long ago, in one unit. */
export function age(time: string | number, now: number): string {
  const seconds = Math.max(0, Math.round((now - new Date(time).getTime()) / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3_600)} h`;
  return `${Math.floor(seconds / 86_400)} days`;
}

export function clock(time: string | number): string {
  const date = new Date(time);
  const two = (value: number, digits = 2) => String(value).padStart(digits, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${two(date.getMilliseconds(), 3)}`;
}

export function moment(time: string | number): string {
  return new Date(time).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
}

/** A count with commas: `10,000`. */
export function grouped(count: number): string {
  return count.toLocaleString('en-US');
}

export function tokens(count: number): string {
  return count < 10_000 ? grouped(count) : `${(count / 1000).toFixed(count < 100_000 ? 1 : 0)} k`;
}

export function dollars(cost: number | undefined): string {
  if (cost === undefined) return '–';
  if (cost === 0) return '$0';
  return cost < 0.01 ? `$${cost.toPrecision(2)}` : `$${cost.toFixed(2)}`;
}

export function plural(count: number, noun: string): string {
  return `${grouped(count)} ${noun}${count === 1 ? '' : 's'}`;
}
