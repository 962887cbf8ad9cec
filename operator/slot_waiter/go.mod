module staticgroup.io/slot-waiter

go 1.24
