import { createHash } from 'node:crypto';
import { taskIdPattern } from './core/contracts/index.ts';

/** The task id of a child turn, from the key of its call or hook: the key itself if it is a valid task id, else its SHA-256. */
export function childTaskId(key: string): string {
  return taskIdPattern.test(key) ? key : createHash('sha256').update(key).digest('hex');
}
