import { describeReal } from '../../real/real-part.ts';

/** Tests that start a PostgreSQL server. */
export function describePostgres(title: string, define: () => void): void {
  describeReal(['postgres'], title, define);
}
