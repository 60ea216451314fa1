-- For wrk: each request has another target than the 49,999 before it and another account's token than the 4,999 before it,
-- so that no proxy can know its head from before, while accounts can have been seen.
local accounts, targets, turn, requests = 5000, 50000, 0, {}

function init()
    for target = 1, targets do
        wrk.headers["Authorization"] = string.format("Bearer syt_YWxpY2U_yBdUSiiJVBrXNUKDlrrS%022d", target % accounts)
        requests[target] = wrk.format("GET", string.format("/_matrix/client/v3/profile/%%40u%05d%%3Aexample.org", target))
    end
end

function request()
    turn = turn % targets + 1
    return requests[turn]
end
