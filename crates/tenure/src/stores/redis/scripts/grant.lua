-- Makes a new grant, unless something stands on the key.
--
-- KEYS: the lock, the record beside it, the counter of its slot.
-- ARGV: owner, ttl in ms, holder, 'adopt' or 'refuse'.

-- Writes the record of a new grant; returns it, or nothing and what was in the way.
local function number_it()
  local time = redis.pcall('TIME')
  if time.err then return nil, time end
  -- Greater than the last number of the slot, and than the clock: so a counter that was lost, or is
  -- older than the last grant, still leads to a greater number, as long as time went on.
  local now = time[1] * 1000000 + time[2]
  local granted = string.format('%.0f', now)
  local fence = granted
  local last = redis.pcall('GETSET', KEYS[3], granted)
  if type(last) == 'table' then return nil, last end
  local number = tonumber(last or 0)
  if not (number and number >= 0 and number < 9007199254740991) then
    redis.call('SET', KEYS[3], last)
    return nil, redis.error_reply('DAMAGED the fence counter of the slot is not a number')
  end
  if number >= now then
    fence = string.format('%.0f', number + 1)
    redis.call('SET', KEYS[3], fence)
  end
  local record = ARGV[1] .. '\n' .. fence .. '\n' .. ARGV[2] .. '\n' .. granted .. '\n' .. ARGV[3]
  local written = redis.pcall('SET', KEYS[2], record, 'PX', ARGV[2])
  if written.err then return nil, written end
  return record
end

if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local record, problem = number_it()
  if problem then
    redis.call('DEL', KEYS[1]) -- No lock without a number.
    return problem
  end
  return {'granted', ARGV[1], record, tonumber(ARGV[2])}
end
