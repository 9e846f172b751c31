import { describeReal } from '../../real/real-part.ts';

/** Tests that start a `redis-server`. */
export function describeRedis(title: string, define: () => void): void {
  describeReal(['redis'], title, define);
}

/** Tests that start a `redis-sentinel` besides. */
export function describeSentinel(title: string, define: () => void): void {
  describeReal(['redis', 'sentinel'], title, define);
}
