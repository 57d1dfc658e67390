-- Makes a new grant, unless something stands on the key.
--
-- ARGV: owner, ttl in ms, holder, 'adopt' or 'refuse'.
local function number_it(lock_is_new)
  -- Greater than the last number of the slot, and than the clock: so a counter that was lost, or is
  -- older than the last grant, still leads to a greater number, as long as time went on.
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local granted = string.format('%.0f', now)
  local fence = granted
  local last = redis.pcall('GETSET', KEYS[3], granted)
  local number = type(last) ~= 'table' and tonumber(last or 0)
  if not (number and number >= 0 and number < 9007199254740991) then
    -- No lock without a number. The counter is left as it was found.
    if lock_is_new then redis.call('DEL', KEYS[1]) end
    if type(last) ~= 'table' then redis.call('SET', KEYS[3], last) end
    return nil
  end
  if number >= now then
    fence = string.format('%.0f', number + 1)
    redis.call('SET', KEYS[3], fence)
  end
  local record = ARGV[1] .. '\n' .. fence .. '\n' .. ARGV[2] .. '\n' .. granted .. '\n' .. ARGV[3]
  redis.call('SET', KEYS[2], record, 'PX', ARGV[2])
  return record
end
local uncountable = 'DAMAGED the fence counter of the slot is not a number'

if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local record = number_it(true)
  if not record then return redis.error_reply(uncountable) end
  return {'granted', ARGV[1], record, tonumber(ARGV[2])}
end
