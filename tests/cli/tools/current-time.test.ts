import { describe, expect, it } from '@jest/globals';
import { currentTimeTool } from 'millrace/internals';
import { fakeClock } from 'millrace/testing';
import { runTool } from './run-tool.ts';

const summer = Date.UTC(2026, 6, 1, 22, 30, 5);
const winter = Date.UTC(2026, 0, 1, 0, 0, 0);

async function timeIn(zone: string, startAt = summer): Promise<Record<string, string>> {
  return JSON.parse(await runTool(currentTimeTool(fakeClock({ startAt })), { zone }));
}

describe('current_time', () => {
  it('tells date, weekday and time with the offset of the zone', async () => {
    expect(await timeIn('Europe/Paris')).toEqual({
      zone: 'Europe/Paris',
      weekday: 'Thursday',
      time: '2026-07-02T00:30:05+02:00',
      utc: '2026-07-01T22:30:05.000Z',
    });
    expect(await timeIn('Europe/Paris', winter)).toMatchObject({ time: '2026-01-01T01:00:00+01:00' });
  });

  const zones: readonly (readonly [asked: string, zone: string, time: string])[] = [
    ['UTC', 'UTC', '2026-07-01T22:30:05+00:00'],
    ['Asia/Kathmandu', 'Asia/Kathmandu', '2026-07-02T04:15:05+05:45'],
    ['tokyo', 'Asia/Tokyo', '2026-07-02T07:30:05+09:00'],
    ['New York', 'America/New_York', '2026-07-01T18:30:05-04:00'],
    ['america/new_york', 'America/New_York', '2026-07-01T18:30:05-04:00'],
    ['Kolkata', 'Asia/Kolkata', '2026-07-02T04:00:05+05:30'],
    ['Calcutta', 'Asia/Calcutta', '2026-07-02T04:00:05+05:30'],
    [' Sydney ', 'Australia/Sydney', '2026-07-02T08:30:05+10:00'],
  ];

  it.each(zones)('finds %p as %s', async (asked, zone, time) => {
    const answer = await timeIn(asked);
    expect([answer['zone']?.toLowerCase(), answer['time']]).toEqual([zone.toLowerCase(), time]);
  });

  const unknown: readonly (readonly [asked: string, message: string])[] = [
    ['Tokio', 'The time zone "Tokio" is not known; did you mean Asia/Tokyo?'],
    ['Europe/Pariss', 'did you mean Europe/Paris?'],
    ['Los Angelos', 'did you mean America/Los_Angeles?'],
    ['xyzzy', 'give an IANA name such as "America/New_York"'],
    ['../etc/passwd', 'is not known'],
  ];

  it.each(unknown)('names what is close to %p', async (asked, message) => {
    await expect(timeIn(asked)).rejects.toThrow(message);
  });

  it("uses the computer's own zone where none is named", async () => {
    const { zone, utc } = JSON.parse(await runTool(currentTimeTool(fakeClock({ startAt: summer })), {}));
    expect([zone, utc]).toEqual([new Intl.DateTimeFormat().resolvedOptions().timeZone, '2026-07-01T22:30:05.000Z']);
  });
});
